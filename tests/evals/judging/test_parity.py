"""ELKEN's judged answers from replies in its form to the report's numbers, against worked cases."""

import json
from functools import partial
from typing import Any

import pytest

from emend.agents.judging.base import Item
from emend.agents.judging.tendency import SCALES
from emend.evals.case import Metric, Record
from emend.evals.data.benchmarks.elken.cases import OPEN
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel
from emend.evals.judging.votes import combine
from emend.evals.results.aggregate.columns import ResultGroup, estimate_of
from emend.evals.results.aggregate.judged import as_coded
from emend.evals.results.aggregate.record_table import gather
from emend.graphs.registry import JUDGES
from tests.fakes import ScriptedChatModel
from tests.paths import DATA

PARITY = DATA / "parity" / "elken_metrics.json"


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(PARITY.read_text(encoding="utf-8"))["tendency_g_reliability"]
    return data


def _always(reply: str, prompt: str) -> str:
    return reply


@pytest.fixture(scope="module")
def records(cases) -> list[Record]:
    """The items as judged records, five to a reply."""
    judge, panel = JUDGES.load("tendency"), Panel(judges=("a",))
    parts = ("event", "question", "answer", "label")
    items = [Item.of("tendency", **{name: case[name] for name in parts}) for case in cases["items"]]
    outcome = []
    batches = [items[start : start + 5] for start in range(0, len(items), 5)]
    for reply, own in zip(cases["judge_replies_one_per_batch_of_5"], batches, strict=True):
        model = ScriptedChatModel(reply=partial(_always, reply))
        for item, judgement in zip(own, judge.judge(own, model, retries=0), strict=True):
            result = Judgement(
                item=item.id, kind="tendency", judge="a", values=judgement.values, problem=judgement.problem
            )
            outcome.append((item, combine(panel, judge, [result])))
    same: dict[str, Any] = {
        "unit": "u",
        "of": 1,
        "kind": OPEN,
        "editor": "e",
        "model": "m",
        "setting": "event",
        "mode": "all",
    }
    return [
        Record(
            case=item.parts["event"][0],
            probe=str(n),
            prompt="",
            gold=("x",),
            values=entry.values,
            unscored=entry.unscored,
            **same,
        )
        for n, (item, entry) in enumerate(outcome)
    ]


def test_replies_in_the_papers_form_give_the_marks_that_its_code_reads(cases, records):
    for record, wanted in zip(records, cases["expected"]["parsed_scores_per_item"], strict=True):
        marks = [record.values.get(f"{scale}_mark", -1) for scale in SCALES]
        assert marks == [wanted[name] for name in ("accuracy", "coherence", "comprehensive", "overall")]
        assert bool(record.unscored) == (wanted["overall"] == -1)


def test_the_edit_level_is_the_papers_and_the_codes_stands_in_the_notes(cases, records):
    wanted = cases["expected"]
    metric = Metric(name="G E", value="judged", kinds=(OPEN,), per="all")
    level = estimate_of(gather(records).places[ResultGroup("event", "all", "e")], metric)
    paper = wanted["edit_level_paper_definition"]
    assert (level.mean, level.n) == (paper["rate"], paper["total"])
    rates = wanted["question_level_full_mark_rate"]["overall"], wanted["edit_level_as_original_code"]["rate"]
    by_paper, by_code = as_coded(records)
    assert by_paper.endswith(f"e G Q {100 * rates[0]:.1f}, G E {100 * paper['rate']:.1f}")
    assert by_code.endswith(f"e G Q {100 * rates[0]:.1f}, G E {100 * rates[1]:.1f}")


def test_an_event_with_an_unread_answer_is_unscored_here_and_not_right_in_the_paper(records):
    full = next(record for record in records if record.values.get("judged") == 1.0)
    unread = next(record for record in records if record.unscored)
    answers = [full, unread.model_copy(update={"case": full.case}), full.model_copy(update={"case": "another"})]
    metric = Metric(name="G E", value="judged", kinds=(OPEN,), per="all")
    level = estimate_of(gather(answers).places[ResultGroup("event", "all", "e")], metric)
    assert (level.mean, level.n, level.unscored) == (1.0, 1, 1)
    assert as_coded(answers)[0].endswith("G E 50.0")
