"""Wordings of composed questions: each to keep, or to drop for a reason.

`first` were written in one go before the filters were run on them: precision of keeping 54%, recall 100%.
`unseen` were run once, after the filters had been made to drop the first ones: both 86%.
"""

from typing import NamedTuple

import pytest

from emend.graphs.construction.chains import SAME, build
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel
from tests.graphs.construction.zoo import check_keeping, named, once, read_items, read_specimens

FILTER_OF = {
    "no question": "three_questions",
    "text after the question": "three_questions",
    "refusal": "talk",
    "talk": "talk",
    "repeats another wording": "different",
    "repeats the composed question": "different",
    "start is a pronoun": "start",
    "start left out": "start",
    "another start": "start",
    "hop named": "leak",
    "new hop named": "leak",
    "answer named": "leak",
    "alias named": "leak",
    "part of a name": "leak",
    "two questions": "one_question",
    "options": "one_question",
    "yes or no": "open_question",
    "injected instruction": "instruction",
    "address": "instruction",
    "placeholder": "markup",
    "label": "markup",
    "other language": "language",
}
JUDGED = {
    "lost step": SAME,
    "another relation": SAME,
    "added step": SAME,
    "reversed": SAME,
}
"""Kinds that only a judge or a reader sees."""


class Specimen(NamedTuple):
    """A labelled wording of an item's question; `verdict` is what a careful judge says of it."""

    item: str
    question: str
    label: str
    kind: str
    written: str
    verdict: str = "True"


ITEMS = read_items("chains_items.json")
ZOO = read_specimens("chains_zoo.jsonl", Specimen)
GRAPH = build()


@once
def rejecting_filter(specimen: Specimen) -> str:
    """The name of the filter that drops the wording beside two good ones, or an empty text."""
    item = ITEMS[specimen.item]
    reply = "\n".join(f"{place}. {each}" for place, each in enumerate([*item["good"], specimen.question], 1))
    author = ScriptedChatModel(reply=lambda prompt: reply)
    judge = ScriptedChatModel(reply=lambda prompt: specimen.verdict if specimen.question in prompt else "True")
    context = ConstructionContext(author, judge, language=item["language"], attempts=1)
    state, _ = run_graph(GRAPH, {"item": item}, context)
    assert ("result" in state) != bool(state["rejections"])
    return str(state["rejections"][0]["filter"]) if state["rejections"] else ""


def text_of(each: Specimen) -> str:
    return each.question


@pytest.mark.slow
def test_precision_and_recall_of_keeping_are_at_least_95_percent():
    check_keeping([each for each in ZOO if each.kind not in JUDGED], rejecting_filter)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in FILTER_OF), text_of))
def test_a_bad_wording_is_dropped_by_the_filter_meant_for_it(specimen: Specimen):
    assert rejecting_filter(specimen) == FILTER_OF[specimen.kind]


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in JUDGED), text_of))
def test_what_only_a_judge_sees_is_dropped_when_it_says_false(specimen: Specimen):
    assert rejecting_filter(specimen) == JUDGED[specimen.kind]
