"""A run owns its folder before the first model call."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.prepare import check_folder
from emend.evals.log.folder import LOCK, owned_folder
from emend.memory.errors import RunRefused


def test_a_folder_is_created_with_its_parents_and_removed_if_it_stays_empty(tmp_path):
    folder = tmp_path / "runs" / "today"
    with owned_folder(folder):
        assert folder.is_dir()
    assert not folder.exists()


def test_drafts_are_removed_with_the_folder_and_other_files_are_not(tmp_path: Path) -> None:
    with owned_folder(tmp_path / "drafts", drafts={"cases", "memory"}) as folder:
        (folder / "cases").write_text("{}")
        (folder / "memory" / "index").mkdir(parents=True)
    assert not folder.exists()
    with owned_folder(tmp_path / "records", drafts={"cases"}) as folder:
        (folder / "cases").write_text("{}")
        (folder / "records").write_text("{}")
    assert {path.name for path in folder.iterdir()} == {LOCK, "cases", "records"}


def test_drafts_that_a_killed_process_left_are_deleted_and_other_files_are_not(tmp_path: Path) -> None:
    for name in ("manifest.json.0123abcd.new", "letter.new", "records.jsonl"):
        (tmp_path / name).write_text("{}")
    with owned_folder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {LOCK, "letter.new", "records.jsonl"}


def test_a_second_owner_is_refused_and_leaves_the_folder_to_the_first(tmp_path):
    with owned_folder(tmp_path / "run") as folder:
        for _ in range(2):
            with pytest.raises(RunRefused, match="another process"), owned_folder(folder):
                pytest.fail("entered")
            assert (folder / LOCK).exists()


@pytest.mark.slow
def test_of_threads_that_take_the_same_new_folder_one_at_a_time_owns_it(tmp_path: Path) -> None:
    folder, gate = tmp_path / "runs" / "same", threading.Barrier(4)
    owners, most, endings, count = 0, [0], list[str](), threading.Lock()

    def work() -> None:
        nonlocal owners
        for _ in range(200):
            gate.wait()
            try:
                with owned_folder(folder):
                    with count:
                        owners += 1
                        most.append(owners)
                    assert (folder / LOCK).exists()
                    with count:
                        owners -= 1
                endings.append("owner")
            except Exception as error:  # noqa: BLE001  every kind is looked at below
                endings.append("in use" if "another process is working" in str(error) else repr(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert set(endings) <= {"owner", "in use"} and endings.count("owner") >= 200


def test_a_parent_that_another_run_removes_meanwhile_is_made_again(tmp_path: Path, monkeypatch: Any) -> None:
    mkdir, gone = Path.mkdir, [tmp_path / "runs" / "same"]

    def interrupted(path: Path, *args: Any, **options: Any) -> None:
        if gone and path == gone[0]:
            raise FileNotFoundError(2, "No such file or directory", str(gone.pop()))
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with owned_folder(tmp_path / "runs" / "same") as folder:
        assert (folder / LOCK).exists() and not gone


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(RunRefused, match=f"{tmp_path}.*Make it writable"), owned_folder(tmp_path):
            pytest.fail("entered")
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_of_other_files_that_is_refused_is_left_as_it_was(tmp_path):
    (tmp_path / "letter.txt").write_text("x", encoding="utf-8")
    with pytest.raises(RunRefused, match="other files"), owned_folder(tmp_path) as folder:
        check_folder(RunConfig(benchmark="tinyworld", editors=("unedited",), model="tiny"), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    (tmp_path / LOCK).touch()
    with pytest.raises(RunRefused), owned_folder(tmp_path):
        raise RunRefused("no")
    assert (tmp_path / LOCK).exists()
