"""Updates are read from a dump in its true form, packed or not, by several processes, and on from where one stopped."""

import bz2
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from emend.evals.construction.wikidata import dump_lines
from emend.evals.construction.wikidata.dump import ScanProgress, read_updates
from emend.evals.construction.wikidata.fact_update import FactUpdate, UpdateCounts
from emend.evals.data.facts.relation_tables import Relations
from emend.memory.errors import BadData, BadSettings, FetchFailed, MissingData
from tests.evals.construction.wikidata.entities import dump_of, entity, line, statement

SINCE, TODAY = date(2021, 4, 1), date(2024, 6, 1)
RELATIONS = Relations.read()


def subject(id_: str, label: str, old: str = "Q10", new: str = "Q30") -> dict[str, Any]:
    """A subject whose head of government changed."""
    claims = [statement("P6", old, "2019-07-24", "2022-09-06"), statement("P6", new, "2022-10"), statement("P31", "Q5")]
    return entity(id_, label, [*claims, statement("P31", "Q5")])


UK, UPDATE = subject("Q145", "United Kingdom"), FactUpdate(
    subject="United Kingdom",
    subject_id="Q145",
    relation="head of government",
    relation_id="P6",
    old="Johnson",
    old_id="Q10",
    new="Sunak",
    new_id="Q30",
    old_start="2019-07-24",
    old_end="2022-09-06",
    new_start="2022-10",
    new_end=None,
    aliases_old=("Johnson alias",),
    aliases_new=("Sunak alias",),
    subject_page="United Kingdom page",
    new_page="Sunak page",
)  # fmt: skip
JOHNSON, SUNAK = entity("Q10", "Johnson"), entity("Q30", "Sunak")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a dump of entities and lines."""

    def write_dump(*entities: Any, name: str = "dump.json", content: bytes | None = None) -> Path:
        plain = dump_of(*entities) if content is None else content
        pack: Any = {"gz": gzip.compress, "bz2": bz2.compress}.get(name.rpartition(".")[2], bytes)
        (tmp_path / name).write_bytes(pack(plain))
        return tmp_path / name

    return write_dump


def read(path: Path, counts: UpdateCounts | None = None, **settings: Any) -> list[FactUpdate]:
    defaults: dict[str, Any] = {"since": SINCE, "relations": RELATIONS, "workers": 1, "today": TODAY}
    return list(read_updates(path, counts=counts, **defaults | settings))


@pytest.mark.parametrize("name", ["dump.json", "dump.json.gz", "dump.json.bz2"])
def test_an_update_is_read_with_labels_dates_aliases_and_pages(write, name):
    counts = UpdateCounts()
    # Objects stand before and behind the subject.
    assert read(write(JOHNSON, UK, SUNAK, name=name), counts) == [UPDATE]
    assert (counts.lines, counts.candidates, counts.updates, counts.damaged, counts.reasons) == (3, 1, 1, 0, {})


@pytest.mark.slow
def test_an_item_that_a_dump_has_twice_gives_its_update_once(write):
    assert read(write(UK, JOHNSON, UK, SUNAK)) == [UPDATE]


def test_several_processes_read_the_same_in_the_same_order(write):
    subjects = [subject(f"Q{1000 + number}", f"Land {number}") for number in range(300)]
    path = write(JOHNSON, *subjects, SUNAK, name="dump.json.gz")
    assert [update.subject for update in read(path, workers=2)] == [f"Land {number}" for number in range(300)]


def test_a_dump_without_brackets_and_with_spaces_in_its_json_is_read(write):
    content = b"\n".join(json.dumps(thing).encode() for thing in (UK, JOHNSON, SUNAK))
    assert read(write(content=content)) == [UPDATE]
    assert read(write(content=b"\xef\xbb\xbf" + dump_of(UK, JOHNSON, SUNAK).replace(b"\n", b"\r\n"))) == [UPDATE]


def test_properties_lexemes_redirects_and_empty_parts_are_passed_over(write):
    others = [
        entity("P6", "head", [statement("P6", "Q1", "2022")], type="property"),
        {"type": "lexeme", "id": "L1", "lemmas": {}, "claims": {"P6": [statement("P6", "Q1", "2022")]}},
        {"entity": "Q11", "redirect": "Q10"},
        {"type": "item", "id": "Q12", "labels": [], "aliases": [], "sitelinks": [], "claims": [], "x": '"P580"'},
    ]
    counts = UpdateCounts()
    assert read(write(*others, UK, JOHNSON, SUNAK), counts) == [UPDATE]
    assert (counts.damaged, counts.candidates) == (0, 1)


def test_labels_for_all_languages_stand_in_for_those_of_one(write):
    label = {"mul": {"language": "mul", "value": "Rishi  Sunak"}}
    path = write(UK, JOHNSON, entity("Q30", "Sunak", labels=label))
    assert [update.new for update in read(path)] == ["Rishi Sunak"]


def test_labels_and_pages_are_those_of_the_language(write):
    page = {"dewiki": {"site": "dewiki", "title": "Vereinigtes Königreich", "badges": []}}
    (update,) = read(write(UK | {"sitelinks": page}, JOHNSON, SUNAK), language="de")
    assert (update.subject, update.new, update.subject_page) == (
        "United Kingdom (de)",
        "Sunak (de)",
        "Vereinigtes Königreich",
    )
    assert (update.aliases_new, update.new_page) == ((), "")


def test_objects_that_were_merged_or_have_no_label_give_their_reason(write):
    counts = UpdateCounts()
    path = write(UK, subject("Q2", "a", new="Q31"), subject("Q3", "", new="Q30"), JOHNSON, SUNAK, entity("Q31", ""))
    assert read(path, counts) == [UPDATE]
    assert counts.reasons == {"no_label": 2}
    counts = UpdateCounts()
    assert read(write(UK, subject("Q2", "a", new="Q31"), JOHNSON, SUNAK), counts) == [UPDATE]
    assert counts.reasons == {"absent_object": 1}


def test_every_candidate_is_an_update_or_has_a_reason(write):
    claims = [statement("P6", "Q10", "2019"), statement("P35", "Q10", "2022"), statement("P108", "Q10")]
    counts = UpdateCounts()
    assert read(write(entity("Q1", "it", claims), UK, JOHNSON, SUNAK), counts) == [UPDATE]
    assert counts.reasons == {"unchanged": 1, "no_predecessor": 1, "missing_start": 1}
    assert counts.candidates == counts.updates + counts.reasons.total()


# --- damage


def test_damaged_lines_are_counted_with_their_offsets_and_do_not_stop_the_reading(write):
    deep = b'{"type":"item","claims":' + b"[" * 100_000 + b'"P580","P6":}'
    typed = line(subject("Q4", "x")).replace(b'"rank":"normal"', b'"rank":5')
    damaged = [line(UK)[:-40], b"hello", deep, typed, line(subject("Q5", "x")).replace(b'"x"', b'"\xff"')]
    counts = UpdateCounts()
    assert read(write(UK, *damaged, JOHNSON, SUNAK, name="dump.json.gz"), counts) == [UPDATE]
    content = dump_of(UK, *damaged, JOHNSON, SUNAK)
    assert (counts.damaged, counts.lines) == (5, 8)
    assert counts.damaged_at == [content.index(b"\n" + part + b",") + 1 for part in damaged]


def test_a_line_that_is_too_long_is_damaged_and_not_held_in_memory(write, monkeypatch):
    monkeypatch.setattr(dump_lines, "LONGEST", 10_000)
    monkeypatch.setattr(dump_lines, "BLOCK", 4_000)
    counts = UpdateCounts()
    long = b'{"x":"' + b"y" * 50_000 + b'"}'
    sizes = [len(block.content) for block in dump_lines.DumpFile(write(UK, long, JOHNSON, SUNAK)).blocks(0, 4_000)]
    assert max(sizes) < 20_000
    monkeypatch.setattr(dump_lines.DumpFile.blocks, "__defaults__", (4_000,))
    assert read(write(UK, long, JOHNSON, SUNAK), counts) == [UPDATE]
    assert counts.damaged_at == [dump_of(UK, long).index(long)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<mediawiki>",
        b"PK\x03\x04",
        b'[\n{\n"a": 1\n}\n]',
        b'[{"id": 1}, 2]',
        b"[\nx\ny\n]",
        b'{"half',
        b"\x28\xb5\x2f\xfd",
    ],
)
def test_a_file_that_is_no_dump_is_refused_with_where_dumps_are(write, content):
    with pytest.raises(BadData, match=r"dumps\.wikimedia\.org"):
        read(write(content=content))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(MissingData, match=r"dumps\.wikimedia\.org"):
        read(tmp_path / "none.json.gz")
    with pytest.raises(BadData, match="folder"):
        read(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dump.json.gz", "dump.json.bz2"])
def test_a_packed_file_that_is_cut_off_or_damaged_is_refused_with_the_offset(write, name, tmp_path):
    path = write(*(subject(f"Q{number + 100}", f"Land {number}") for number in range(300)), name=name)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(BadData, match="checksum"):
        read(path)
    path.write_bytes(whole[: len(whole) // 2] + bytes(200) + whole[len(whole) // 2 + 200 :])
    with pytest.raises(BadData, match="checksum"):
        read(path)


# --- state


def stop_after(blocks: int) -> Callable[[ScanProgress], None]:
    """A report of progress that interrupts the reading."""
    seen: list[ScanProgress] = []

    def report(progress: ScanProgress) -> None:
        seen.append(progress)
        if len(seen) == blocks:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize("name", ["dump.json", "dump.json.gz", "dump.json.bz2"])
def test_an_interrupted_reading_goes_on_and_ends_as_one_that_was_not(write, name, tmp_path, monkeypatch):
    monkeypatch.setattr(dump_lines.DumpFile.blocks, "__defaults__", (3_000,))
    subjects = [subject(f"Q{1000 + number}", f"Land {number}", new=f"Q{number % 2 * 20 + 10}") for number in range(40)]
    path = write(JOHNSON, *subjects, b"damaged", SUNAK, name=name)
    whole, counts = UpdateCounts(), UpdateCounts()
    updates = read(path, whole)
    assert len(updates) == 20 and whole.reasons == {"same_object": 20} and whole.damaged == 1
    offsets = []
    for blocks in range(2, 40, 3):  # each time from where the last one stopped
        try:
            resumed = read(path, counts, state=tmp_path / "state", progress=stop_after(blocks))
        except KeyboardInterrupt:
            counts = UpdateCounts()
        else:
            offsets.append(blocks)
            break
    assert offsets and resumed == updates and counts == whole


def test_a_finished_reading_is_not_done_again(write, tmp_path):
    path, reports = write(UK, JOHNSON, SUNAK), list[ScanProgress]()
    first, second = UpdateCounts(), UpdateCounts()
    assert read(path, first, state=tmp_path / "state", progress=reports.append) == [UPDATE]
    assert [report.stage for report in reports] == ["changes", "objects"]
    assert reports[-1].packed_bytes == reports[-1].packed_size == path.stat().st_size
    assert read(path, second, state=tmp_path / "state", progress=reports.append) == [UPDATE]
    assert len(reports) == 2 and first == second


def test_a_state_keeps_the_day_on_which_the_reading_began(write, tmp_path):
    claims = [statement("P6", "Q10", "2019", "2022"), statement("P6", "Q30", "2022", "2024-05-01")]
    path = write(entity("Q1", "it", claims), JOHNSON, SUNAK)
    assert len(read(path, state=tmp_path / "state", today=date(2024, 4, 1))) == 1
    assert len(read(path, state=tmp_path / "state", today=TODAY)) == 1
    assert read(path, today=TODAY) == []


def test_a_state_of_another_reading_is_refused_with_what_differs(write, tmp_path):
    path = write(UK, JOHNSON, SUNAK)
    read(path, state=tmp_path / "state")
    others: dict[str, Any] = {"since": date(2022, 1, 1), "recipe": "paper", "language": "de"}
    for name in others:
        with pytest.raises(BadSettings, match=name):
            read(path, None, state=tmp_path / "state", **{name: others[name]})


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE changes SET fields = '{}'",
        "UPDATE objects SET aliases = '7'",
        "UPDATE facts SET value = '['",
        "UPDATE facts SET value = '\"x\"' WHERE name = 'counts'",
        "UPDATE facts SET value = '\"x\"' WHERE name = 'today'",
    ],
)
def test_a_damaged_state_is_refused(write, tmp_path, damage):
    path = write(UK, JOHNSON, SUNAK)
    assert read(path, state=tmp_path / "state")
    with closing(sqlite3.connect(tmp_path / "state")) as database, database:
        database.execute(damage)
    with pytest.raises(FetchFailed, match="damaged: delete it"):
        read(path, state=tmp_path / "state")


def test_a_state_that_another_reading_uses_is_refused(write, tmp_path):
    path = write(UK, JOHNSON, SUNAK)
    updates: Any = read_updates(path, SINCE, RELATIONS, workers=1, state=tmp_path / "state")
    next(updates)
    with pytest.raises(FetchFailed, match="any other process"):
        read(path, state=tmp_path / "state")
    updates.close()
    assert read(path, state=tmp_path / "state") == [UPDATE]


KILLED = """
import sys, time
from contextlib import closing
from datetime import date
from pathlib import Path
from emend.evals.construction.wikidata.dump import read_updates
from emend.evals.construction.wikidata.fact_update import Relations

def wait(progress):
    print("read", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    dump, state = map(Path, sys.argv[1:])
    list(read_updates(dump, date(2021, 4, 1), Relations.read(), workers=2, progress=wait, state=state))
"""


def is_running(process: str) -> bool:
    """Whether a process is there, and not only waiting to be noted as ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are read from /proc")
def test_a_killed_reading_leaves_no_process_and_goes_on(write, tmp_path):
    path, script = write(UK, JOHNSON, SUNAK), tmp_path / "script.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(path), str(tmp_path / "state")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout and process.stdout.readline() == b"read\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert len(children) >= 2
    end = time.monotonic() + 30
    while any(map(is_running, children)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(is_running, children))
    assert len(read(path, state=tmp_path / "state")) == 1


def test_a_damaged_state_is_refused_with_its_name(write, tmp_path):
    (tmp_path / "state").write_bytes(b"no database" * 1000)
    with pytest.raises(FetchFailed, match="delete it"):
        read(write(UK), state=tmp_path / "state")


def test_an_unknown_language_is_refused(write):
    with pytest.raises(BadSettings, match="pt-br"):
        read(write(UK), language="../x")
