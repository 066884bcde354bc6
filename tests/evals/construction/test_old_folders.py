"""Folders of constructions as earlier versions wrote them, whose items are the answers of an editor."""

import shutil
from pathlib import Path

import pytest

from emend.evals.cli.trust import check_trust, names_of_run
from emend.evals.construction.assemble import assemble
from emend.evals.construction.build import RUN, apply_review, build
from emend.evals.construction.card import Card, FilterCount
from emend.evals.construction.items.line import read_item_lines
from emend.evals.construction.items.manifest import Construction
from emend.evals.construction.knowledge import Knowledge
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.evals.show.trace.case_trace import trace
from emend.memory.errors import RunRefused
from tests.evals import command_line
from tests.evals.construction.authors import label
from tests.paths import DATA

STORED = DATA / "built" / "akew"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED, tmp_path / "akew"))


def test_items_are_read_in_the_order_of_their_source_with_what_came_of_them(folder: Path):
    lines = read_item_lines(folder / RUN)
    assert [line.position for line in lines] == list(range(6))
    assert [line.verdict for line in lines] == ["kept"] * 5 + ["rejected"]
    assert lines[0].item["subject"] == "Pell Lock" and "paragraph" in (lines[0].result or {})
    assert lines[-1].rejected_by == "conveys" and lines[-1].passed == {"conveys": False}


def test_the_same_benchmark_and_counts_are_made_of_its_lines(folder: Path):
    before = Card.model_validate_json((folder / "card.json").read_bytes())
    rows = (folder / "CounterFact.json").read_bytes()
    card = assemble(folder / RUN, folder, before.status)
    assert (folder / "CounterFact.json").read_bytes() == rows
    assert card.steps and not before.steps  # which earlier cards did not have
    told = {name: getattr(before, name) for name in ("built", "emend", "steps", "limits")}
    assert card.model_copy(update=told | {"filters": counts_of(card)}) == before.model_copy(
        update={"filters": counts_of(before)}
    )


def test_sheets_that_were_drawn_from_it_still_review_it(folder: Path):
    label(folder / "review" / "annotator-1.csv", "no", 1)
    assert apply_review(folder, folder / "review").dropped == {"conveys": 1, "reviewers": 1}


def test_it_says_what_it_was_started_with(folder: Path):
    construction = Construction.read(folder / RUN)
    assert (construction.kind, construction.config.recipe, construction.items) == ("akew", "paper", 6)
    assert construction.config.source == "facts.jsonl" and construction.judge.startswith("openai:judge")


def test_report_and_trace_show_it(folder: Path):
    (row,) = [row for row in report(folder / RUN).rows if row.metric == "kept"]
    assert row.n == 6
    (probe,) = trace(folder / RUN, "6").probes
    assert [step["node"] for step in probe.steps] == ["write", "verify"]


def test_a_folder_of_facts_that_a_model_knows_is_read_as_the_run_that_it_is():
    kinds = {record.kind for record in read_records(DATA / "built" / "fresh" / RUN)}
    assert kinds == {"in_words", "as_choice"}


def test_it_is_neither_continued_nor_resumed_and_both_say_what_can_be_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    before = (folder / RUN / "manifest.json").read_bytes()
    config = Construction.read(folder / RUN).config.model_copy(update={"source": str(DATA / "built" / "facts.jsonl")})
    with pytest.raises(RunRefused, match="another --out"):
        build("akew", config, folder)
    resumed = command_line.caller(monkeypatch, capsys)("resume", folder / RUN)
    assert resumed.code and "--review" in resumed.err
    assert (folder / RUN / "manifest.json").read_bytes() == before


def test_a_folder_of_facts_that_a_model_knows_is_resumed_without_naming_code(tmp_path: Path):
    folder = Path(shutil.copytree(DATA / "built" / "fresh" / RUN, tmp_path / RUN))
    check_trust(names_of_run(Manifest.read(folder).config), (), "emend resume")
    assert BENCHMARKS.load(Manifest.read(folder).config.benchmark) is Knowledge


def counts_of(card: Card) -> tuple[FilterCount, ...]:
    """Return the counts of a card's filters without their descriptions, whose wording may change."""
    return tuple(each.model_copy(update={"rejects": "", "published": ""}) for each in card.filters)
