"""Events of topics and questions about what they make likely: each to keep, or to drop for a reason.

`first` were written in one go before the filters were run on them: precision of keeping 47%, recall 100%.
`unseen` were run once, after the filters had been made to drop the first ones: 52%, and 100%.
`later` are of kinds that ELKEN's own events and questions showed to be dropped, or kept, wrongly.
"""

from typing import NamedTuple

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.tendencies import FOLLOWS, STEADY, UNGUESSABLE, build
from emend.graphs.construction.tendency_drafts import NO_EVENT, TendencyDraft, TendencyDrafts
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel
from tests.graphs.construction.zoo import check_keeping, named, once, read_specimens

FILTER_OF = {
    "refusal": "talk",
    "talk": "talk",
    "injected instruction": "instruction",
    "address": "instruction",
    "prompt repeated": "task",
    "markup": "markup",
    "label": "markup",
    "placeholder": "markup",
    "two sentences": "one_sentence",
    "question in place of an event": "one_sentence",
    "headline": "one_sentence",
    "cut off": "one_sentence",
    "too long": "one_sentence",
    "other language": "language",
    "repetition": "loop",
    "comment on truth": "denial",
    "nobody named": "named",
    "effect": "effect",
    "possible event": "possible",
    "question with talk": "question_talk",
    "question with an instruction": "question_instruction",
    "question with an address": "question_instruction",
    "question with markup": "question_markup",
    "question with a label": "question_markup",
    "question with a placeholder": "question_markup",
    "two questions": "one_question",
    "options in the question": "one_question",
    "question in another language": "question_language",
    "no question": "self_contained",
    "event not given": "self_contained",
    "question about nobody": "self_contained",
    "event told again": "event_repeated",
    "no tendency": "tendency",
    "options alike": "options",
    "no impact as an option": "options",
    "long option": "options",
    "empty option": "options",
    "lettered option": "options",
    "unsure option": "options",
    "options in another language": "options",
}
JUDGED = {
    "another choice": FOLLOWS,
    "order decides": STEADY,
    "options in other words": STEADY,
    "known without the event": UNGUESSABLE,
}
"""Kinds that only a reader sees."""
MISSED = frozenset({"effect in a clause of its own"})
"""Kinds that nothing sees."""
EVENT = "Calder Lines buys Vesk Mills from its founder, Ines Rove."
LINES = {
    "de": "Calder Lines übernimmt die Vesk Mills von der Gründerin, Ines Rove.",
    "zh": "卡尔德航运从创始人手中收购了维斯克工厂。",
}
"""The event in other languages."""
OTHERS = {
    "en": ("How might the number of cafés in {} tend to change?", ("Increase", "Decrease")),
    "de": ("Wie könnte sich die Zahl der Cafés in {} verändern?", ("Sie steigt", "Sie sinkt")),
    "zh": ("{}的咖啡馆数量可能会怎样变化？", ("增加", "减少")),
}
"""A good question about a place, which stands beside the labelled ones."""


class Specimen(NamedTuple):
    """A labelled event, or a question about an event; `reader` is how a reader chooses among its options."""

    part: str
    language: str
    label: str
    kind: str
    written: str
    event: str = ""
    question: str = ""
    about: str = ""
    options: tuple[str, ...] = ()
    reader: str = "plan"

    @property
    def text(self) -> str:
        """What the author wrote."""
        return self.event or f"{self.question} {' / '.join(self.options)}"


ZOO = read_specimens("tendencies_zoo.jsonl", Specimen)
GRAPH = build()


def drafts(specimen: Specimen) -> TendencyDrafts:
    """The labelled question first, and good ones about towns."""

    def other(name: str) -> TendencyDraft:
        question, (first, second) = OTHERS[specimen.language]
        return TendencyDraft(question=question.format(name), about=name, first=first, second=second)

    places = ("Halden", "Brask", "Lowen") if specimen.language != "zh" else ("哈尔登", "布拉斯克", "洛文")
    in_scope = [other(name) for name in places]
    if specimen.question:
        first, second = specimen.options
        in_scope = [
            TendencyDraft(question=specimen.question, about=specimen.about, first=first, second=second),
            *in_scope,
        ]
    return TendencyDrafts(in_scope=in_scope, out_of_scope=[other("Saturn" if specimen.language != "zh" else "土星")])


def choose(specimen: Specimen, prompt: str) -> str:
    """The letter that a reader chooses: as planned with the event alone, but for labelled questions."""
    event, _, rest = prompt.rpartition("Event: ")[2].partition("\n")
    question, _, options = rest.partition("\nOptions: ")
    is_labelled = bool(specimen.question) and specimen.question in question
    first = specimen.options[0] if is_labelled else OTHERS[specimen.language][1][0]
    planned = "A" if options.startswith(f"(A) {first} (B)") else "B"
    if not is_labelled or specimen.reader == "plan":
        return "C" if event == NO_EVENT or "Saturn" in question or "土星" in question else planned
    return {"other": "BA"["AB".index(planned)], "none": "C", "first": "A", "knows": planned}[specimen.reader]


def rejections(specimen: Specimen) -> list[str]:
    """The filters that drop the event, or its first question, in order."""

    def reply(prompt: str) -> str:
        if SHIPPED["tendency_events"].task.partition("{")[0][:40] in prompt:
            return specimen.event or LINES.get(specimen.language, EVENT)
        if SHIPPED["tendency_questions"].task.partition("{")[0][:40] in prompt:
            return drafts(specimen).model_dump_json()
        return choose(specimen, prompt)

    model = ScriptedChatModel(reply=reply)
    item = {"topic": "Business", "region": "Oceania", "split": "test"}
    state, _ = run_graph(GRAPH, {"item": item}, ConstructionContext(model, model, language=specimen.language))
    events = state["result"]["events"] if "result" in state else []
    questions = [question["question"] for event in events for question in event["in_scope"]]
    is_kept = bool(events) and (not specimen.question or specimen.question in questions)
    assert is_kept != bool(state["rejections"])
    return [str(each["filter"]) for each in state["rejections"]]


@once
def rejecting_filter(specimen: Specimen) -> str:
    """The name of the filter that drops the event or the question, or an empty text."""
    return next(iter(rejections(specimen)), "")


def text_of(each: Specimen) -> str:
    return each.text


@pytest.mark.slow
def test_precision_and_recall_of_keeping_are_at_least_95_percent():
    check_keeping([each for each in ZOO if each.kind not in JUDGED], rejecting_filter)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in FILTER_OF), text_of))
def test_a_bad_event_or_question_is_dropped_by_the_filter_meant_for_it(specimen: Specimen):
    assert rejecting_filter(specimen) == FILTER_OF[specimen.kind]


@pytest.mark.slow
@pytest.mark.parametrize("specimen", named((each for each in ZOO if each.kind in JUDGED), text_of))
def test_what_only_a_reader_sees_is_dropped_by_its_choices(specimen: Specimen):
    assert JUDGED[specimen.kind] in rejections(specimen)
