"""AKEW's filters on labelled paragraphs, by people and by small models: each to keep, or to drop for a reason."""

import json
from typing import Any, NamedTuple

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.akew import CONVEYS, READS_AS, build
from emend.graphs.construction.filters.texts import AuthoredDraft, first_fault
from emend.graphs.construction.pipeline import LANGUAGES, ConstructionContext
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel
from tests.graphs.construction.zoo import check_keeping, named, once
from tests.paths import DATA

FILTER_OF = {
    "old object left": "old_object",
    "wrong object": "new_object",
    "two objects": "two_objects",
    "refusal": "refusal",
    "empty": "empty",
    "other language": "language",
    "cut off": "cut_off",
    "cut off at the limit": "cut_off",
    "repetition": "loop",
    "prompt repeated": "repeated_prompt",
    "comment on truth": "denial",
    "injected instruction": "instruction",
    "address": "instruction",
    "conversation": "instruction",
    "markup": "markup",
    "heading or list": "markup",
    "placeholder": "markup",
    "label": "markup",
    "too short": "length",
    "too long": "length",
    "subject missing": "subject",
    "object missing": "new_object",
    "meta talk": "talk",
}
JUDGED, REPEATED = "judge", "duplicate"
"""Kinds that only a judge sees, and that only the whole benchmark shows."""


class Specimen(NamedTuple):
    """A labelled text; `author` is a model's name, or begins with `hand`."""

    item: dict[str, Any]
    language: str
    text: str
    is_cut_off: bool
    label: str
    kind: str
    author: str


def read_zoo() -> list[Specimen]:
    rows = map(json.loads, (DATA / "construction" / "akew_zoo.jsonl").read_text(encoding="utf-8").splitlines())
    return [Specimen({name: row.pop(name) for name in ITEM if name in row}, **row) for row in rows]


ITEM = ("fact", "subject", "object", "old", "aliases")
ZOO = read_zoo()
PROMPT = SHIPPED["paragraph"]


@once
def rejecting_filter(specimen: Specimen) -> str:
    """The name of the filter of texts that drops a text, or an empty text."""
    item, language = specimen.item, LANGUAGES[specimen.language]
    prompt = PROMPT.fill(fact=item["fact"], language=language).text
    draft = AuthoredDraft(
        text=specimen.text,
        subject=item["subject"],
        new=item["object"],
        old=item["old"],
        prompt=prompt.removesuffix(f"{PROMPT.ask.format(fact=item['fact'])}\n{PROMPT.label}"),
        fact=item["fact"],
        language=specimen.language,
        is_cut_off=specimen.is_cut_off,
        aliases=tuple(item.get("aliases", ())),
    )
    return first_fault(draft).filter


def judged(specimen: Specimen, verdict: str) -> dict[str, Any]:
    """The state in which the graph ends for a text that its author writes, with a judge that says the verdict."""
    author = ScriptedChatModel(reply=lambda prompt: specimen.text)
    reads = SHIPPED[READS_AS].task[:40]
    judge = ScriptedChatModel(reply=lambda prompt: "usable" if reads in prompt else verdict)
    context = ConstructionContext(author, judge, language=specimen.language, attempts=1)
    return run_graph(build("best"), {"item": specimen.item}, context)[0]


def text_of(each: Specimen) -> str:
    return str(each.item["subject"])


@pytest.mark.slow
def test_precision_and_recall_of_keeping_are_at_least_95_percent():
    check_keeping([each for each in ZOO if each.kind not in (JUDGED, REPEATED)], rejecting_filter)


@pytest.mark.slow
@pytest.mark.parametrize(
    "specimen", named((each for each in ZOO if each.kind in FILTER_OF and each.author.startswith("hand")), text_of)
)
def test_a_bad_text_is_dropped_by_the_filter_meant_for_it(specimen: Specimen):
    assert rejecting_filter(specimen) == FILTER_OF[specimen.kind]


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind == JUDGED), text_of))
def test_what_only_a_judge_sees_is_dropped_when_it_says_false(specimen: Specimen):
    assert "result" in judged(specimen, "True")
    state = judged(specimen, "False")
    assert "result" not in state and state["rejections"][-1]["filter"] == CONVEYS
