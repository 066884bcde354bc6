"""`emend doctor`: the data folders that a run uses."""

import shutil
from pathlib import Path

import pytest

from emend.evals.components.installation import _data
from tests.paths import DATA

AKEW = DATA / "akew"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMEND_DATA", raising=False)


def told() -> dict[str, tuple[str, str]]:
    return {check: (status, detail) for _, check, status, detail in _data()}


def test_the_default_data_folder_is_reported_with_its_benchmarks(tmp_path: Path) -> None:
    shutil.copytree(AKEW, tmp_path / "data" / "akew")
    (tmp_path / "data" / "docter").mkdir()  # has none of the benchmark's files
    status, detail = told()["data/"]
    assert status == "ok" and detail.startswith("akew: used where neither --data nor EMEND_DATA is given")


def test_without_any_files_the_download_command_is_named() -> None:
    status, detail = told()["data/"]
    assert status == "absent" and "emend data pull" in detail


def test_the_default_folder_is_ignored_if_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(AKEW, tmp_path / "all" / "akew")
    monkeypatch.setenv("EMEND_DATA", str(tmp_path / "all"))
    assert told() == {"EMEND_DATA": ("ok", f"{tmp_path / 'all'}: akew")}
