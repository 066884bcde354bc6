"""The files that nobody publishes as they are needed come out as they must, from invented parts and from real ones."""

import json
from pathlib import Path

import pytest

from emend.evals.data.benchmarks.docter.rows import GoldFactRow
from emend.evals.data.benchmarks.elken.rows import EventRow
from emend.evals.data.benchmarks.rows import read_numbered, read_rows
from emend.evals.data.download import DataSource, Made
from emend.evals.data.pull import Puller, make
from emend.memory.errors import BadData
from tests.evals.data.origin import serving
from tests.paths import SHARED

REAL = SHARED / "data"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
EMPTY: dict[str, list[dict]] = {"qas": [], "local_qas": []}
FACTS = ("edit", "train", "val")


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def chosen(part: dict) -> dict:
    """A part of an event as the scope classifier's outputs have it."""
    return {key: [q | {"serac_event": "NA"} for q in questions] for key, questions in part.items()}


def split(events: list[dict], folder: Path) -> None:
    """The events as two outputs of the scope classifier."""
    tendencies = [e for e in events if any(e["tendency"].values())]
    facts = [e for e in events if any(e["fact"].values()) or e not in tendencies]
    kept = ("event", "event_type")
    for name, part, held in (("tendency", "tendency", tendencies), ("fact", "fact", facts)):
        rows = [{k: e[k] for k in kept} | {part: chosen(e[part]), "id": n} for n, e in enumerate(held)]
        write(folder / "serac" / f"{name}.json", rows)


def question(text: str) -> dict:
    return {"question": text, "candidate": "(A) More (B) Less (C) No change", "answer": "A"}


def fact(text: str) -> dict:
    answer = {"id": "NA", "name": "Oslo", "alias": []}
    return {"question": text, "answer": answer, "subject": {"id": "NA", "name": "Ada"}, "type": 0, "rel_id": "P1"}


def test_elkens_test_events_are_put_together_by_their_text(tmp_path):
    both = {"event_type": "born", "event": "A", "tendency": {"qas": [question("a")], "local_qas": []}}
    both["fact"] = {"qas": [fact("where?")], "local_qas": []}
    alone = {"event_type": "born", "event": "B", "tendency": {"qas": [question("b")], "local_qas": []}, "fact": EMPTY}
    facts = {"event_type": "born", "event": "C", "tendency": EMPTY, "fact": {"qas": [fact("who?")], "local_qas": []}}
    split([both, alone, facts], tmp_path)
    make("elken_test", tmp_path, tmp_path / "test.json")
    made = json.loads((tmp_path / "test.json").read_text("utf-8"))
    assert made == [both, alone, facts]
    assert len(read_rows(tmp_path / "test.json", EventRow)) == 3


@pytest.mark.slow
@real
def test_real_events_come_back_as_they_were(tmp_path):
    events = json.loads((REAL / "elken/test.json").read_text("utf-8"))
    split(events, tmp_path)
    make("elken_test", tmp_path, tmp_path / "test.json")
    assert read_rows(tmp_path / "test.json", EventRow) == read_rows(REAL / "elken/test.json", EventRow)


def docter_parts(folder: Path, facts: list[dict]) -> None:
    """The facts as CounterFact's three files, and the tests that ask about them."""
    for n, name in enumerate(FACTS):
        held = [
            {
                "case_id": f["id"],
                "prompt": f["prompt"],
                "subject": f["subject"],
                "ground_truth": f["original_target"],
                "target_new": f["altered_target"],
            }
            for f in facts[n::3]
        ]
        write(folder / f"counterfact/counterfact-{name}.json", held)


def test_gold_facts_are_the_records_behind_docters_ids(tmp_path):
    facts = [
        {"id": n, "subject": s, "prompt": f"{s} lives in", "original_target": "Rome", "altered_target": "Oslo"}
        for n, s in enumerate(("Ada", "Bo", "Cy", "Di"))
    ]
    docter_parts(tmp_path, facts)
    asked = {"original_target": "Rome", "altered_target": "Oslo"}
    write(tmp_path / "edit_success_eval.json", {"data": [{"id": 2, **asked}, {"id": 0, **asked}]})
    write(tmp_path / "cross_en_eval.json", {"data": [{"id": 3, **asked}]})
    write(tmp_path / "reasoning_eval.json", {"data": [{"id": 0, "src": "?", "label": "True"}]})
    make("docter_facts", tmp_path, tmp_path / "gold_facts.json")
    rows = read_numbered(tmp_path / "gold_facts.json", GoldFactRow)
    assert list(rows) == [0, 2, 3] and rows[2].prompt_template == "{} lives in" and rows[2].subject == "Cy"
    write(tmp_path / "cross_en_eval.json", {"data": [{"id": 9, **asked}]})
    with pytest.raises(BadData, match=r"no record of the ids \[9\]"):
        make("docter_facts", tmp_path, tmp_path / "gold_facts.json")
    write(tmp_path / "cross_en_eval.json", {"data": [{"id": 3, "original_target": "Bonn", "altered_target": "Oslo"}]})
    with pytest.raises(BadData, match="id 3, field 'original_target': 'Bonn' in DocTER and 'Rome'"):
        make("docter_facts", tmp_path, tmp_path / "gold_facts.json")


@real
def test_real_gold_facts_come_out_as_they_are_known(tmp_path):
    for name in ("edit_success_eval", "cross_en_eval", "reasoning_eval"):
        (tmp_path / f"{name}.json").symlink_to(REAL / "docter" / f"{name}.json")
    docter_parts(tmp_path, json.loads((REAL / "docter/gold_facts.json").read_text("utf-8"))["data"])
    make("docter_facts", tmp_path, tmp_path / "gold_facts.json")
    assert read_numbered(tmp_path / "gold_facts.json", GoldFactRow) == read_numbered(
        REAL / "docter/gold_facts.json", GoldFactRow
    )


def test_a_made_file_follows_its_parts_and_is_made_again_when_they_came_anew(tmp_path):
    event = {"event_type": "born", "event": "A", "tendency": {"qas": [question("a")], "local_qas": []}, "fact": EMPTY}
    split([event], tmp_path / "up")
    inputs = ("serac/tendency.json", "serac/fact.json")
    made = Made(name="test.json", inputs=inputs, maker="elken_test", licence="CC")
    with serving() as origin:
        for name in inputs:
            origin.publish(name, (tmp_path / "up" / name).read_bytes())
        source = DataSource(name="elken", remotes=tuple(map(origin.remote, inputs)), derived=(made,))

        def status() -> list[str]:
            return [outcome.status for outcome in Puller(source, tmp_path / "elken", retries=0).pull()]

        assert status() == ["fetched", "fetched", "made"]
        assert status() == ["there", "there", "there"]
        (tmp_path / "elken/serac/fact.json").unlink()
        assert status() == ["there", "fetched", "made"]
        (tmp_path / "elken/serac/fact.json").unlink()
        del origin.files["/serac/fact.json"]
        assert status() == ["there", "failed", "failed"]
    assert read_rows(tmp_path / "elken/test.json", EventRow)[0].event == "A"
