"""A run folder from a stranger, a full disk and a deleted folder end in one clean error, and write nowhere else."""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emend.agents.providers.journal import FILE, CallJournal
from emend.evals.cli.main import app
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.triples import ExtractedDocument
from emend.evals.evaluate.run import run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import FOLDER
from emend.evals.log.folder import LOCK, finished_units, repair_torn_tail
from emend.evals.log.lines import BASELINE, CASES, COSTS, ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST
from emend.evals.log.records import AppendLog, RunLog, read_records
from emend.evals.measure.extraction import SourceDocument, extract_to
from emend.evals.results.aggregate.runs import list_runs
from emend.memory import files
from emend.memory.edit import Edit
from emend.memory.errors import BadData, EmendError, MissingData, RunRefused
from tests.evals.judged_runs import elken_run, judge_model, scored
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel, untimed
from tests.params import mostly_slow

# One case at a time: the lines of a run then stand in the order of its cases, which messages name.
CONFIG = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="scripted", concurrency=1)
READING = ("report", "trace 1", "trace", "compare", "analyse", "resume")
SECRET = "precious\n"
FILES = (MANIFEST, RECORDS, EVENTS, ERRORS, BASELINE, COSTS, CASES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "done"
    run(CONFIG, folder, model=ScriptedModel())
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def ends(folder: Path, command: str) -> str:
    """Message of a command over the folder, which must be one of Emend's own errors; empty where it succeeds."""
    words = command.split()
    try:
        if words[0] == "resume":
            run(CONFIG, folder, model=ScriptedModel())
            return ""
        more = [str(folder)] if words[0] == "compare" else []
        outcome = CliRunner().invoke(app, [words[0], str(folder), *more, *words[1:]])
        if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
    except EmendError as error:
        return str(error)
    return ""


def link(path: Path, victim: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(victim)


@pytest.mark.parametrize(
    "name", [RECORDS, EVENTS, ERRORS, BASELINE, COSTS, MANIFEST, CASES, LOCK, ".writable", f"{CASES}.new"]
)
def test_nothing_is_written_through_a_link(folder: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    link(folder / name, victim)
    if name != RECORDS:
        os.truncate(folder / RECORDS, 0)
    if name == f"{CASES}.new":
        (folder / CASES).unlink()
    message = ends(folder, "resume")
    assert victim.read_text() == SECRET and ("symbolic link" in message or name == CASES)


def test_no_folder_and_no_database_of_a_run_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("scorings", "memory", FILE):
        (folder / name).symlink_to(elsewhere)
    config = CONFIG.model_copy(update={"editors": ("rag",), "embedding": "lexical"})
    with pytest.raises(EmendError, match="scorings' is a symbolic link"):
        score_run(folder, Panel(judges=("a",)), ["equivalence"], models={"a": judge_model()})
    with pytest.raises(EmendError, match=f"{FILE}' is a symbolic link"):
        CallJournal(folder)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "memory").symlink_to(elsewhere)
    with pytest.raises(EmendError, match="memory' is a symbolic link"):
        run(config, tmp_path / "new", model=ScriptedModel())
    assert not list(elsewhere.iterdir())


def test_the_manifest_is_not_written_through_a_link(folder: Path, tmp_path: Path, monkeypatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123abcd")
    link(folder / f"{MANIFEST}.0123abcd.new", victim)
    for name in (RECORDS, MANIFEST, CASES, EVENTS, ERRORS, BASELINE, COSTS):
        (folder / name).unlink()
    run(CONFIG, folder, model=ScriptedModel())
    assert victim.read_text() == SECRET and not (folder / MANIFEST).is_symlink()


@pytest.mark.parametrize("command", ["report", "trace 1", "trace", "compare", "resume"])
def test_a_line_that_would_use_up_the_memory_is_refused_with_its_position(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    first, *lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    long = json.dumps(json.loads(first) | {"answer": "a " * (1 << 20)}).encode()
    (folder / RECORDS).write_bytes(b"".join([first, long, b"\n", *lines]))
    assert "records.jsonl' has a line of more than 1 MiB" in ends(folder, command)


def test_an_event_that_would_use_up_the_memory_is_refused_with_its_position(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    unit = next(iter(read_records(folder))).unit
    whole, _ = finished_units(folder)
    with (folder / EVENTS).open("ab") as file:
        file.write(json.dumps({"unit": unit, "node": "a " * (1 << 20)}).encode() + b"\n")
    with pytest.raises(BadData, match=r"events.jsonl' has a line of more than 1 MiB"):
        repair_torn_tail(folder)
    assert unit in whole


@pytest.mark.parametrize("command", ["report", "trace", "resume"])
def test_a_manifest_that_would_use_up_the_memory_is_refused(folder: Path, command: str, monkeypatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    content = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(content | {"note": "a " * (1 << 20)}))
    assert "manifest.json' has more than 1,048,576 bytes" in ends(folder, command)


def test_a_run_that_a_list_of_runs_leaves_out_is_named(folder: Path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    (folder / COSTS).unlink()
    with (folder / RECORDS).open("ab") as file:
        file.write(b"a" * (2 << 20) + b"\n")
    with pytest.raises(MissingData):
        list_runs(folder)
    assert "records.jsonl' has a line of more than 1 MiB" in caplog.text


SPOILS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", mostly_slow(list(SPOILS), "FIFO"))
@pytest.mark.parametrize("name", mostly_slow(FILES, RECORDS, CASES))
def test_what_is_no_regular_file_is_named(folder: Path, name: str, spoil: str) -> None:
    (folder / name).unlink()
    SPOILS[spoil](folder / name)
    messages = [ends(folder, command) for command in READING]
    named = [message for message in messages if f"{name}' is a" in message]
    assert named and (messages[-1] in named or name == CASES), messages


def test_files_and_folders_are_private(finished: Path) -> None:
    old = os.umask(0)
    try:
        run(CONFIG, finished.parent / "private", model=ScriptedModel())
    finally:
        os.umask(old)
    paths = [finished.parent / "private", *(finished.parent / "private").iterdir()]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) & 0o077 for path in paths}
    assert not any(modes.values()), modes


EDIT_COST = (
    '{"act":"edit","editor":"e","setting":"plain","mode":"single","repeat":0,"edits":1,"seconds":1.0,"cpu_seconds":1.0,'
    '"tokens":0,"peak_bytes":null,"of":[]}'
)


LINES = [
    (RECORDS, '{"unit":"u","of":"x"}'),
    (RECORDS, '{"unit":"u","of":1e999}'),
    (RECORDS, '{"unit":"u","of":null}'),
    (RECORDS, '{"unit":"u","of":1234567890123456789012}'),
    (RECORDS, '{"unit":"u","of":0}'),
    (RECORDS, '{"unit":["u"],"of":1}'),
    (RECORDS, "[" * 100_000),
    (EVENTS, '{"unit":["u"]}'),
    (EVENTS, "[" * 100_000 + "]" * 100_000),
    (COSTS, '{"act":"edit","seconds":"x","editor":5}'),
    (COSTS, '{"act":"run","seconds":null}'),
    (COSTS, '{"act":"edit","edits":1,"tokens":Infinity}'),
    (COSTS, '{"act":"perplexity before"}'),
    (COSTS, EDIT_COST.replace("[]", "null")),
    (COSTS, EDIT_COST.replace('"repeat":0', '"repeat":[]')),
    (BASELINE, '{"key":"k","probe":"p","answer":{"usage":{"untold":[]}}}'),
    (ERRORS, '{"unit":["u"],"steps":3}'),
    (CASES, '{"number":1,"setting":"plain","case":"c","edits":[{"text":5}]}'),
    (CASES, "garbage"),
]
ONE_OF_EACH_FILE = dict(reversed(LINES)).items()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), mostly_slow(LINES, *ONE_OF_EACH_FILE))
def test_a_damaged_line_is_an_error_or_left_out(folder: Path, name: str, line: str) -> None:
    with (folder / name).open("a") as file:
        file.write(line + "\n")
    number = len((folder / name).read_text().splitlines())
    for command in READING:
        message = ends(folder, command)
        assert not message or f"{name}, line {number}" in message or name in message, (command, message)


@pytest.mark.parametrize("name", mostly_slow(FILES, MANIFEST, RECORDS))
@pytest.mark.parametrize("how", mostly_slow(["utf-16", "utf-8-sig", "zeros", "empty", "missing", "huge"], "utf-16"))
def test_a_damaged_file_is_an_error_or_left_out(folder: Path, name: str, how: str) -> None:
    text = (folder / name).read_text("utf-8")
    content = {"zeros": b"\0" * 5000, "empty": b"", "huge": b'{"of": ' + b"9" * 5000 + b"}\n"}.get(how)
    if how == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(text.encode(how) if content is None else content)
    for command in READING:
        message = ends(folder, command)
        assert not message or name in message or folder.name in message, (command, message)


def test_a_run_without_its_records_is_no_empty_run(folder: Path) -> None:
    (folder / RECORDS).unlink()
    assert f"has no {RECORDS}" in ends(folder, "report")


# --- disk


class FullDisk:
    """Writes to a file until so many bytes have been written, by all together."""

    def __init__(self, left: int) -> None:
        self.left = left

    def limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from emend.evals.log import records
        from emend.memory import files

        disk = self

        class Limited:
            def __init__(self, file: Any) -> None:
                self._file = file

            def __getattr__(self, name: str) -> Any:
                return getattr(self._file, name)

            def __iter__(self) -> Iterator[bytes]:
                return iter(self._file)

            def __enter__(self) -> "Limited":
                return self

            def __exit__(self, *error: object) -> None:
                self._file.close()

            def write(self, content: bytes) -> int:
                if disk.left <= 0:
                    raise OSError(28, "No space left on device")
                part = content[: max(1, disk.left)]
                disk.left -= len(part)
                written: int = self._file.write(part)
                if len(part) < len(content) and not hasattr(self._file, "readall"):
                    raise OSError(28, "No space left on device")  # a buffered file writes all or fails
                return written

        opened = files.open_file
        for module in (records, files):
            monkeypatch.setattr(module, "open_file", lambda *args, **more: Limited(opened(*args, **more)))


@pytest.mark.slow
def test_a_full_disk_is_one_error_at_any_byte_and_finished_units_are_kept(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {record.probe: untimed(record) for record in read_records(finished)}
    for left in (0, 10, 700, 3_000, 5_000, 9_000, 12_000, 15_000):
        out = tmp_path / str(left)
        with monkeypatch.context() as patched:
            FullDisk(left).limit(patched)
            with pytest.raises(RunRefused, match="No space left on device"):
                run(CONFIG, out, model=ScriptedModel())
        run(CONFIG, out, model=ScriptedModel())
        assert {record.probe: untimed(record) for record in read_records(out)} == whole, left


@pytest.mark.slow
@pytest.mark.parametrize("left", mostly_slow([0, 900, 4_000], 900))
def test_a_full_disk_keeps_judgements_and_triplets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    folder, triplets = elken_run(tmp_path / "run"), tmp_path / "triplets.jsonl"
    documents = [SourceDocument(edit=Edit(form="document", text=f"Ana lives in Madrid. {n}")) for n in range(20)]

    def extract(edit: Edit) -> ExtractedDocument:
        return ExtractedDocument(document_id=edit.id, method="rules", fingerprint="f", reason="x" * 200)

    with monkeypatch.context() as patched:
        FullDisk(left).limit(patched)
        with pytest.raises(RunRefused, match="No space left on device"):
            scored(folder)
        FullDisk(left).limit(patched)
        with pytest.raises(RunRefused, match="No space left on device.*Finished documents are kept"):
            extract_to(triplets, documents, extract, "f")
    scoring = scored(folder).scoring
    judged = [judgement.key for judgement in read_judgements(folder, scoring)]
    assert len(judged) == len(set(judged)) > 3
    again = extract_to(triplets, documents, extract, "f")
    assert len(again.rows) == 20 and again.skipped == triplets.read_bytes().count(b"\n") - again.added


class Deleting(ScriptedModel):
    """Deletes the run folder while it is asked."""

    folder: str = ""

    def reply(self, prompt: str) -> str:
        if "Land3" in prompt:
            shutil.rmtree(self.folder, ignore_errors=True)
        return super().reply(prompt)


def test_a_folder_that_is_deleted_during_the_run_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(RunRefused, match="no longer exists.*The folder was deleted meanwhile"):
        run(CONFIG, tmp_path / "run", model=Deleting(folder=str(tmp_path / "run")))


def test_a_name_that_no_folder_can_have_is_one_error(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b", str(tmp_path / "file" / "below")):
        (tmp_path / "file").touch()
        with pytest.raises(EmendError):
            run(CONFIG, tmp_path / name, model=ScriptedModel())


# --- surrogates


class Halved(ScriptedModel):
    """Says half a surrogate pair."""

    def reply(self, prompt: str) -> str:
        return super().reply(prompt) + "\ud800!"


def test_half_a_surrogate_pair_is_replaced_and_the_unit_written(tmp_path: Path) -> None:
    summary = run(CONFIG, tmp_path / "run", model=Halved())
    assert (summary.failed, summary.finished) == (0, 6)
    records = list(read_records(tmp_path / "run"))
    assert len(records) == 12 and any("\ufffd" in (record.answer or "") for record in records)
    assert not ends(tmp_path / "run", "report") and not ends(tmp_path / "run", "trace 1")
    with AppendLog(tmp_path, ["x"], "") as log, RunLog(tmp_path) as run_log:
        run_log.line(EVENTS, {"\ud800": "\udfff"})
        log.append({"x": b"y\n"})
    assert json.loads((tmp_path / EVENTS).read_text("utf-8")) == {"\ufffd": "\ufffd"}


def test_a_scoring_of_a_stranger_is_refused_cleanly(folder: Path) -> None:
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "x.json").symlink_to("/dev/zero")
    assert "x.json' is a" in ends(folder, "report")


@pytest.mark.parametrize("size", ["1234567890123456789012", "12345678901", "0", "-1"])
def test_an_impossible_number_of_records_is_named_and_no_empty_table(folder: Path, size: str) -> None:
    (folder / RECORDS).write_text(re.sub('"of":[0-9]+', f'"of":{size}', (folder / RECORDS).read_text()))
    for command in ("report", "report --sql SELECT", "trace 1"):
        message = ends(folder, command)
        assert f"{RECORDS}, line 1" in message and "of" in message, (command, message)


@pytest.mark.parametrize("name", [RECORDS, CASES, ERRORS])
def test_a_fifo_is_no_empty_table(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert f"{name}' is a FIFO" in ends(folder, "report --sql SELECT")
