"""A mirror has the files of its run, whatever the store does; copies of mirrors are runs to read."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import emend
from emend.evals.log import mirror
from emend.evals.log import mirror as mirror_module
from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST
from emend.evals.log.mirror import MIRRORED, MirrorStore, Segment, copy_mirror
from emend.evals.run.run import run
from emend.memory.errors import BadData, BadSettings, EmendError, FetchFailed, RunRefused, TooManyFailures
from tests.evals.toy_runs import config, records, untimed_records
from tests.evals.toys import ScriptedModel

KEY = "a-very-secret-key"


class FlakyStore(MemoryFileSystem):  # type: ignore[misc]
    """Fails while `down`, with a key in its error."""

    protocol = "flaky"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    down = False

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        if self.down:
            raise ConnectionError(f"AccessDenied for {KEY}")
        super().pipe_file(path, value, **options)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("STORE_SECRET", KEY)
    fsspec.register_implementation("flaky", FlakyStore, clobber=True)


@pytest.fixture
def address() -> str:
    return f"memory://{uuid4().hex}/x.1"


def test_a_run_from_python_is_mirrored_and_loaded_from_there(tmp_path: Path, address: str) -> None:
    toys = ("tests.evals.toys:ToyBenchmark", "tests.evals.toys:ToyEditor", "tests.evals.toys:ScriptedModel")
    result = emend.run(*toys, out=tmp_path / "x", mirror=address, progress=False)
    assert [*emend.load_run(address).records()] == [*result.records()]


def go(folder: Path, address: str | None, **changed: Any) -> None:
    run(config(benchmark_options={"cases": "12"}, **changed), folder, model=ScriptedModel(), mirror=address)


def assert_same(folder: Path, copy: Path) -> None:
    for name in (*MIRRORED, MANIFEST):
        assert (copy / name).read_bytes() == (folder / name).read_bytes(), name


def test_a_mirror_has_every_byte_and_its_copy_is_private(tmp_path: Path, address: str) -> None:
    go(tmp_path / "x", address)
    copy = copy_mirror(address)
    assert_same(tmp_path / "x", copy)
    assert copy.name == "x.1"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in copy.iterdir()}
    assert (modes, stat.S_IMODE(copy.stat().st_mode)) == ({0o600}, 0o700)


def test_segments_are_uploaded_while_the_run_goes_on(tmp_path: Path, address: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(mirror_module, "SEGMENT_BYTES", 3000)
    monkeypatch.setattr(mirror_module, "PERIOD", 0.01)
    store, seen = MirrorStore(address), []

    class Watching(ScriptedModel):
        def reply(self, prompt: str) -> str:
            seen.append(len(store.segments(RECORDS)))
            return super().reply(prompt)

    model = Watching(delay=0.02)
    run(config(benchmark_options={"cases": "12"}), tmp_path / "x", model=model, mirror=address)
    assert 0 < max(seen) < len(store.segments(RECORDS)) and len(store.segments(EVENTS)) > 3
    assert_same(tmp_path / "x", copy_mirror(address))


def test_a_store_that_fails_ends_no_run_and_gets_the_rest_later(tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    address = f"flaky://{uuid4().hex}/x"
    monkeypatch.setattr(mirror_module, "TRIES_AT_END", 1)
    monkeypatch.setattr(FlakyStore, "down", True)
    with caplog.at_level(logging.WARNING):
        go(tmp_path / "x", address)
    told = [record.message for record in caplog.records if record.name.endswith("mirror")]
    assert len(told) == 2 and all("ConnectionError: AccessDenied" in text and KEY not in text for text in told)
    assert f"emend resume {tmp_path / 'x'} --mirror {address}" in told[1]
    with pytest.raises(BadData, match="no mirror of a run"):
        copy_mirror(address)
    monkeypatch.setattr(FlakyStore, "down", False)
    go(tmp_path / "x", address)
    assert_same(tmp_path / "x", copy_mirror(address))


def test_an_address_with_another_run_or_share_is_refused_before_any_call(tmp_path: Path, address: str) -> None:
    go(tmp_path / "x", address, share="1/2")
    model = ScriptedModel()
    with pytest.raises(RunRefused, match="holds another run"):
        run(config(benchmark_options={"cases": "12"}, share="2/2"), tmp_path / "y", model=model, mirror=address)
    assert not model.calls
    assert_same(tmp_path / "x", copy_mirror(address))


@pytest.mark.slow
def test_a_new_folder_goes_on_from_the_mirror(tmp_path: Path, address: str) -> None:
    model = ScriptedModel(fail_on="Land7")
    with pytest.raises(TooManyFailures):
        run(
            config(benchmark_options={"cases": "12"}, fail_on_error="true"), tmp_path / "x", model=model, mirror=address
        )
    finished = len(records(tmp_path / "x"))
    (tmp_path / "x").rename(tmp_path / "lost")
    again = run(config(benchmark_options={"cases": "12"}), tmp_path / "x", model=ScriptedModel(), mirror=address)
    assert (again.records + finished, again.units) == (24, 12) and finished > 4
    go(tmp_path / "whole", None)
    assert untimed_records(copy_mirror(address)) == untimed_records(tmp_path / "whole")


def test_what_the_file_does_not_have_is_replaced(tmp_path: Path, address: str) -> None:
    go(tmp_path / "x", address)
    store, copy = MirrorStore(address), copy_mirror(address)
    end = store.segments(RECORDS)[-1].end
    lost = Segment.of(end, b"a unit that was uploaded and never reached the disk\n")
    store.write(RECORDS, lost, b"a unit that was uploaded and never reached the disk\n")
    assert (copy_mirror(address) / RECORDS).stat().st_size == lost.end
    go(tmp_path / "x", address)
    assert copy_mirror(address) == copy
    assert_same(tmp_path / "x", copy)


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A mirror in a folder, and the folder of its records."""
    address = f"file://{tmp_path}/mirror/x"
    go(tmp_path / "x", address)
    yield address, tmp_path / "mirror" / "x" / RECORDS


def damage(records: Path) -> None:
    file = next(records.iterdir())
    file.write_bytes(b"x" * file.stat().st_size)


def leave_a_gap(records: Path) -> None:
    (records / Segment.of(10**6, b"far away").name).write_bytes(b"far away")


def link(records: Path) -> None:
    file = next(records.iterdir())
    file.rename(records / "elsewhere")
    file.symlink_to(records / "elsewhere")


def wait(records: Path) -> None:
    (records.parent / MANIFEST).unlink()
    os.mkfifo(records.parent / MANIFEST)


@pytest.mark.parametrize(
    ("act", "error", "match"),
    [
        (damage, BadData, "is damaged: its digest is another"),
        (leave_a_gap, BadData, "lacks what is between byte"),
        (wait, BadData, "no manifest of a run"),
        (lambda records: records.rename(records.with_name("other")), None, ""),
        (link, None, ""),
    ],
)
def test_odd_mirrors_are_read_or_refused(mirrored: Any, act: Any, error: type[EmendError] | None, match: str) -> None:
    address, records = mirrored
    act(records)
    if error is not None:
        with pytest.raises(error, match=match):
            copy_mirror(address)
    else:
        assert not (copy_mirror(address) / RECORDS).read_bytes()


def test_a_copy_is_bounded_and_follows_no_link(mirrored: Any, tmp_path: Path, monkeypatch: Any) -> None:
    address, _ = mirrored
    copy = copy_mirror(address)
    (tmp_path / "own").write_text("mine")
    (copy / RECORDS).unlink()
    (copy / RECORDS).symlink_to(tmp_path / "own")
    with pytest.raises(BadData, match="symbolic link"):
        copy_mirror(address)
    assert (tmp_path / "own").read_text() == "mine"
    monkeypatch.setattr(mirror, "COPY_BYTES", 1000)
    with pytest.raises(FetchFailed, match="too many"):
        copy_mirror(address)


@pytest.mark.parametrize(
    "address",
    ["s3://ID:a-very-plain-word@bucket/x", "s3://bucket/x?token=a-very-plain-word", "x", "zip://a::s3://b/x", "no://x"],
)
def test_odd_addresses_are_refused_without_their_credentials(tmp_path: Path, address: str) -> None:
    with pytest.raises(BadSettings) as caught:
        go(tmp_path / "x", address)
    assert "plain-word" not in str(caught.value)
