"""Reports of events: each to keep, or to drop for a reason.

`first` were written in one go before the filters were run on them: precision of keeping 63%, recall 96%.
`unseen` were run once, after the filters had been made to drop the first ones: both 83%.
"""

from typing import Any, NamedTuple

import pytest
from langchain_core.outputs import ChatResult

from emend.graphs.construction.akew import CONVEYS
from emend.graphs.construction.elken import NAMED, build
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel
from tests.graphs.construction.zoo import check_keeping, named, once, read_items, read_specimens

FILTER_OF = {
    "refusal": "refusal",
    "empty": "empty",
    "talk": "talk",
    "injected instruction": "instruction",
    "address": "instruction",
    "conversation": "instruction",
    "markup": "markup",
    "placeholder": "markup",
    "label": "markup",
    "two versions": "markup",
    "other language": "language",
    "too long": "length",
    "cut off": "cut_off",
    "cut off at the limit": "cut_off",
    "comment on truth": "denial",
    "repetition": "loop",
    "prompt repeated": "repeated_prompt",
    "question in place of a report": "statement",
    "name left out": NAMED,
    "name altered": NAMED,
}
JUDGED = {
    "event denied": CONVEYS,
    "event uncertain": CONVEYS,
    "roles swapped": CONVEYS,
    "another event": CONVEYS,
}
"""Kinds that only a judge or a reader sees."""


class Specimen(NamedTuple):
    """A labelled report of an item's event; `verdict` is what a careful judge says of it."""

    item: str
    text: str
    label: str
    kind: str
    written: str
    verdict: str = "True"
    is_cut_off: bool = False


ITEMS = read_items("elken_items.json")
ZOO = read_specimens("elken_zoo.jsonl", Specimen)
GRAPH = build()


class CutOffChatModel(ScriptedChatModel):
    """A scripted model whose replies end at its limit of tokens."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        result = super()._generate(*args, **kwargs)
        result.generations[0].message.response_metadata["finish_reason"] = "length"
        return result


@once
def rejecting_filter(specimen: Specimen) -> str:
    """The name of the filter that drops the report, or an empty text."""
    item = ITEMS[specimen.item]
    author = (CutOffChatModel if specimen.is_cut_off else ScriptedChatModel)(reply=lambda prompt: specimen.text)
    judge = ScriptedChatModel(reply=lambda prompt: specimen.verdict)
    context = ConstructionContext(author, judge, language=item["language"], attempts=1)
    state, _ = run_graph(GRAPH, {"item": item}, context)
    assert ("result" in state) != bool(state["rejections"])
    return str(state["rejections"][0]["filter"]) if state["rejections"] else ""


def text_of(each: Specimen) -> str:
    return each.text


@pytest.mark.slow
def test_precision_and_recall_of_keeping_are_at_least_95_percent():
    check_keeping([each for each in ZOO if each.kind not in JUDGED], rejecting_filter)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in FILTER_OF), text_of))
def test_a_bad_report_is_dropped_by_the_filter_meant_for_it(specimen: Specimen):
    assert rejecting_filter(specimen) == FILTER_OF[specimen.kind]


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in JUDGED), text_of))
def test_what_only_a_judge_sees_is_dropped_when_it_says_false(specimen: Specimen):
    assert rejecting_filter(specimen) == JUDGED[specimen.kind]
