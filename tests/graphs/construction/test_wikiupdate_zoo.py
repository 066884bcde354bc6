"""Leads of invented pages: each to keep, or to drop for a reason.

`first` were written in one go before the filters were run on them, `later` after the filters had been made to drop the
first ones, most of the bad ones to evade them.
"""

import json
from typing import NamedTuple

import pytest

from emend.graphs.construction.akew import CONVEYS
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.wikiupdate import build
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel
from tests.graphs.construction.zoo import check_keeping, named
from tests.paths import DATA

FILTER_OF = {
    "no leads": "empty",
    "blank": "empty",
    "punctuation alone": "empty",
    "injected instruction": "instruction",
    "address": "instruction",
    "conversation": "instruction",
    "disambiguation page": "page",
    "redirect": "page",
    "maintenance notice": "page",
    "error page": "page",
    "wiki markup": "markup",
    "HTML": "markup",
    "table": "markup",
    "list": "markup",
    "placeholder": "markup",
    "other language": "language",
    "subject missing": "subject",
    "object missing": "new_object",
    "another person of the family name": "new_object",
    "cut off": "cut_off",
    "list in a line": "cut_off",
}
JUDGED = "judge"
"""Kind that only a judge sees."""
ITEM = ("fact", "subject", "object", "old", "subject_lead", "new_lead")


class Specimen(NamedTuple):
    """Labelled leads of a fact."""

    item: dict[str, str]
    label: str
    kind: str
    author: str
    written: str
    language: str = "en"


def read_zoo() -> list[Specimen]:
    lines = (DATA / "construction" / "wikiupdate_zoo.jsonl").read_text(encoding="utf-8").splitlines()
    return [Specimen({name: row.pop(name) for name in ITEM}, **row) for row in map(json.loads, lines)]


ZOO = read_zoo()
GRAPH = build()


def rejecting_filter(specimen: Specimen, verdict: str = "True") -> str:
    """The name of the filter that drops the leads, or an empty text."""
    author, judge = ScriptedChatModel(reply=lambda prompt: "NONE"), ScriptedChatModel(reply=lambda prompt: verdict)
    context = ConstructionContext(author, judge, language=specimen.language)
    state, _ = run_graph(GRAPH, {"item": specimen.item}, context)
    assert ("result" in state) != bool(state["rejections"])
    return str(state["rejections"][0]["filter"]) if state["rejections"] else ""


def text_of(each: Specimen) -> str:
    return str(each.item["subject_lead"])


@pytest.mark.slow
def test_precision_and_recall_of_keeping_are_at_least_95_percent():
    check_keeping([each for each in ZOO if each.kind != JUDGED], rejecting_filter)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in FILTER_OF), text_of))
def test_bad_leads_are_dropped_by_the_filter_meant_for_them(specimen: Specimen):
    assert rejecting_filter(specimen) == FILTER_OF[specimen.kind]


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind == JUDGED), text_of))
def test_what_only_a_judge_sees_is_dropped_when_it_says_false(specimen: Specimen):
    assert rejecting_filter(specimen) == "" and rejecting_filter(specimen, "False") == CONVEYS
