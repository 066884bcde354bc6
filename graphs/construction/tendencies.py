"""ELKEN's tendency pipeline (appendix A.2): write events of a topic, and questions about what they
make more likely.

An item is a call for ten events of a topic in a region. Each event gets six questions in scope, two
of them about an entity that it does not name, and two out of scope; the options are two opposites
and, as C, no impact. Recipe `paper` only drops near duplicates by shared words; recipe `best` also
drops those by meaning, filters events and questions, and has a reader answer each question with
the event, in both orders of its options, and without it.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.runtime import Runtime

from emend.agents.roles.author import choose_option, write_text
from emend.graphs.construction.filters.duplicates import (
    find_duplicates,
    find_same_meaning,
    meaning_embedding,
)
from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.tendency_events import EVENT_FILTERS, EVENT_REJECTS
from emend.graphs.construction.filters.tendency_questions import (
    QUESTION_FILTERS,
    QUESTION_REJECTS,
    QuestionDraft,
)
from emend.graphs.construction.filters.texts import AuthoredDraft, FilterFault, first_fault
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    checking_graph,
    count_tries,
    describe,
    outcomes_of,
    rejection,
)
from emend.graphs.construction.tendency_drafts import (
    NO_EVENT,
    TendencyDraft,
    TendencyDrafts,
    sample,
)
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

# Number of events per call.
COUNT = 10
# Number of questions per event.
IN_SCOPE, OUT_OF_SCOPE = 6, 2
# Minimum number of questions in scope of a kept event.
FEWEST = 3
# Maximum number of new tokens of a local author's events or questions.
TOKENS = 640
SCOPES = "in_scope", "out_of_scope"
NO_IMPACT = "No significant impact"
DUPLICATE, SAME_MEANING = "duplicate", "same_meaning"
ANY_EVENT, READABLE, ANOTHER, ENOUGH = "any_event", "readable", "another_entity", "enough_questions"
FOLLOWS, STEADY, UNGUESSABLE = "chosen", "order", "not_guessable"
_MARK = re.compile(r"^\s*(?:[-•]|\*(?!\*)|\(?\d+[.):])\s*")


class TendencyState(ConstructionState, total=False):
    """State of the tendencies graph; the item has `topic` and `region`, or an `event`.

    `events` are those that passed so far, each with its questions in scope and out of scope.
    """

    prompt: str
    lines: list[str]
    events: list[dict[str, Any]]


def write_events(state: TendencyState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for events of the topic, one per line, unless the item has an event."""
    context, item = runtime.context, state["item"]
    if item.get("event"):
        return {"prompt": "", "lines": [item["event"]], "attempts": state.get("attempts", 0) + 1}
    prompt = context.fill(
        "tendency_events", state, topic=item["topic"], region=item["region"], count=str(COUNT)
    )
    written = write_text(context.author, prompt, TOKENS)
    if written.is_refused:
        lines = []
    else:
        lines = [_MARK.sub("", line).strip() for line in written.text.splitlines()]
    return {
        "prompt": prompt.text.rpartition(context.prompt("tendency_events").label)[0],
        "lines": [line for line in lines if line][:COUNT],
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_events(state: TendencyState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the lines that describe a single event and are not similar to an earlier one, in words
    or in meaning.
    """
    if state["item"].get("event"):
        return _given(state)
    language = runtime.context.language
    outcomes = [(line, event_fault(line, language, state["prompt"])) for line in state["lines"]]
    faults = [(line, fault) for line, fault in outcomes if fault.filter]
    texts = _without_near(
        [line for line, fault in outcomes if not fault.filter], DUPLICATE, find_duplicates, faults
    )
    names = [*EVENT_FILTERS, DUPLICATE]
    if embedding := meaning_embedding(language):
        names.append(SAME_MEANING)
        texts = _without_near(
            texts, SAME_MEANING, lambda texts: find_same_meaning(texts, embedding), faults
        )
    return _taken(state, names, faults, texts, "no line states an event in one sentence")


def take_lines(state: TendencyState) -> dict[str, Any]:
    """Take all lines but near duplicates of earlier ones, as the paper does."""
    if state["item"].get("event"):
        return _given(state)
    faults = list[tuple[str, FilterFault]]()
    texts = _without_near(state["lines"], DUPLICATE, find_duplicates, faults)
    return _taken(state, [DUPLICATE], faults, texts, "the author wrote no event")


def _given(state: TendencyState) -> dict[str, Any]:
    """Return the state update for an item with a given event, which is not filtered."""
    return {"events": [{"event": text} for text in state["lines"]], "problem": ""}


def event_fault(event: str, language: str, prompt: str = "") -> FilterFault:
    """Return the first filter that rejects an event, given the prompt that it answers."""
    return first_fault(
        AuthoredDraft(event, "", "", prompt=prompt, language=language), EVENT_FILTERS
    )


def question_fault(question: Mapping[str, Any], event: str, language: str) -> FilterFault:
    """Return the first filter that rejects a question about an event."""
    return first_fault(QuestionDraft.from_fields(question, event, language), QUESTION_FILTERS)


def _without_near(
    texts: Sequence[str],
    name: str,
    find: Callable[[Sequence[str]], Mapping[int, int]],
    faults: list[tuple[str, FilterFault]],
) -> list[str]:
    """Return the texts without near duplicates of earlier ones, which are added to `faults`."""
    near = find(texts)
    faults += [
        (texts[place], FilterFault(name, f"near '{texts[other]}'")) for place, other in near.items()
    ]
    return [text for place, text in enumerate(texts) if place not in near]


def _taken(
    state: TendencyState,
    filters: Sequence[str],
    faults: Sequence[tuple[str, FilterFault]],
    texts: Sequence[str],
    problem: str,
) -> dict[str, Any]:
    rejections = [_rejection(state, fault, text) for text, fault in faults]
    tries = count_tries(filters, len(state["lines"]), (fault.filter for _, fault in faults))
    if not texts:
        rejections.append(rejection(state, ANY_EVENT, problem))
    return {
        "events": [{"event": text} for text in texts],
        "rejections": rejections,
        "problem": "" if texts else problem,
        **outcomes_of({**tries, ANY_EVENT: 1}, rejections),
    }


def _rejection(state: ConstructionState, fault: FilterFault, text: str) -> dict[str, Any]:
    return rejection(state, fault.filter, f"{fault.reason}: {text[:80]}")


def ask_questions(state: TendencyState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for questions about each event; drop events without questions."""
    context, usage = runtime.context, Usage()
    events, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for event in state["events"]:
        filled = context.fill("tendency_questions", state, event=event["event"])
        try:
            reply = context.ask_author(filled, TendencyDrafts, TOKENS)
        except ModelReplyError as error:
            usage = usage.plus(error.usage)
            rejections.append(_rejection(state, FilterFault(READABLE, str(error)), event["event"]))
            continue
        usage = usage.plus(reply.usage)
        events.append(event | _arranged(reply.value, event["event"]))
    return {
        "events": events,
        "rejections": rejections,
        "usage": usage,
        **outcomes_of({READABLE: len(state["events"])}, rejections),
    }


def _arranged(drafts: TendencyDrafts, event: str) -> dict[str, Any]:
    """Return the questions with options in an order that does not reveal the answer, and C for no
    impact.
    """
    in_scope = [_with_options(draft, draft.likelier, event) for draft in drafts.in_scope[:IN_SCOPE]]
    out = [_with_options(draft, "", event) for draft in drafts.out_of_scope[:OUT_OF_SCOPE]]
    return {"in_scope": in_scope, "out_of_scope": out}


def _with_options(draft: TendencyDraft, likelier: str, event: str) -> dict[str, Any]:
    swaps = zlib.crc32(f"{event}\n{draft.question}".encode()) % 2 == 1
    options = [draft.second, draft.first] if swaps else [draft.first, draft.second]
    answer = "C" if not likelier else "AB"[options.index(getattr(draft, likelier))]
    return {
        "question": draft.question,
        "about": draft.about,
        "options": [*options, NO_IMPACT],
        "answer": answer,
    }


def check_questions(state: TendencyState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the questions that are self-contained and offer distinct options."""
    language = runtime.context.language
    trial = _try_all(state, lambda event, question: question_fault(question, event, language))
    tries = count_tries(QUESTION_FILTERS, sum(trial.questions.values()), trial.faults)
    # events are only counted here, since try_questions gets the same events again
    tries |= count_tries((ENOUGH, ANOTHER), len(state["events"]), trial.faults)
    return trial.update(tries)


def try_questions(state: TendencyState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the questions that a model answers as intended with the event, but not without it."""
    usage = Usage()

    def fault_of(event: str, question: Mapping[str, Any]) -> FilterFault:
        nonlocal usage
        fault, spent = read_choice(runtime.context, event, question)
        usage = usage.plus(spent)
        return fault

    trial = _try_all(state, fault_of)
    in_scope = trial.questions["in_scope"]
    tries = count_tries((FOLLOWS, STEADY, UNGUESSABLE), in_scope, trial.faults_of["in_scope"])
    tries[FOLLOWS] += trial.questions["out_of_scope"]
    return {**trial.update(tries), "usage": usage}


def is_about_another(question: Mapping[str, Any], event: str) -> bool:
    """Return whether a question is about an entity that the event does not name."""
    return not names(event, question["about"])


@dataclass
class QuestionTrials:
    """Events with their accepted questions, and the rejections.

    Attributes:
        events: events with enough accepted questions.
        rejections: rejections of questions and of events.
        questions: number of questions by scope.
        faults_of: names of the filters that rejected questions, by scope.
    """

    events: list[dict[str, Any]]
    rejections: list[dict[str, Any]]
    questions: Counter[str]
    faults_of: dict[str, list[str]]

    @property
    def faults(self) -> list[str]:
        """Names of the filters of all rejections."""
        return [each["filter"] for each in self.rejections]

    def update(self, tries: Mapping[str, int]) -> dict[str, Any]:
        """Return the state update, given the number of texts that reached each filter."""
        outcomes = outcomes_of(tries, self.rejections)
        if not self.events:
            outcomes["passed"][ENOUGH] = False
        return {"events": self.events, "rejections": self.rejections, **outcomes}


def _try_all(
    state: TendencyState, fault_of: Callable[[str, Mapping[str, Any]], FilterFault]
) -> QuestionTrials:
    """Return the events with the questions that `fault_of` accepts; events with too few are
    dropped.
    """
    trials = QuestionTrials([], [], Counter(), {scope: [] for scope in SCOPES})
    for event in state["events"]:
        usable: dict[str, list[dict[str, Any]]] = {scope: [] for scope in SCOPES}
        for scope, questions in usable.items():
            for question in event[scope]:
                trials.questions[scope] += 1
                fault = fault_of(event["event"], question)
                if fault.filter:
                    trials.faults_of[scope].append(fault.filter)
                    trials.rejections.append(_rejection(state, fault, question["question"]))
                else:
                    questions.append(question)
        if few := _too_few(event, usable):
            trials.rejections.append(_rejection(state, few, event["event"]))
        else:
            trials.events.append(event | usable)
    return trials


def _too_few(
    event: Mapping[str, Any], usable: Mapping[str, Sequence[Mapping[str, Any]]]
) -> FilterFault | None:
    """Return the filter and the reason if an event has too few usable questions, else None."""
    in_scope, out = usable["in_scope"], usable["out_of_scope"]
    if len(in_scope) < FEWEST or not out:
        return FilterFault(
            ENOUGH, f"{len(in_scope)} questions in scope and {len(out)} out of it are left"
        )
    if not any(is_about_another(question, event["event"]) for question in in_scope):
        return FilterFault(ANOTHER, "all questions in scope are about whom the event names")
    return None


def read_choice(
    context: ConstructionContext, event: str, question: Mapping[str, Any]
) -> tuple[FilterFault, Usage]:
    """Ask the judge a question as a reader: with the event, with swapped options, and without it.

    A question out of scope is asked only once, with the event, and its planned answer is C.

    Returns:
        The filter that rejects the question, empty if none does, and the usage.
    """
    usage, answer = Usage(), question["answer"]
    swapped = {"A": "B", "B": "A"}.get(answer, "C")
    trials = [(event, question["options"], answer, FOLLOWS)]
    if answer != "C":
        first, second, none = question["options"]
        trials += [
            (event, [second, first, none], swapped, STEADY),
            (NO_EVENT, question["options"], "", UNGUESSABLE),
        ]
    for shown_event, options, planned, name in trials:
        prompt = context.prompt("tendency_choice").fill(
            event=shown_event, question=question["question"], options=candidate_of(options)
        )
        try:
            choice = choose_option(context.judge, prompt)
        except ModelReplyError as error:
            return FilterFault(name, str(error)), usage.plus(error.usage)
        usage = usage.plus(choice.usage)
        if name == UNGUESSABLE and choice.word == answer:
            return FilterFault(name, "a reader chooses so without the event"), usage
        if planned and choice.word != planned:
            return FilterFault(name, f"a reader chooses {choice.word} and not {planned}"), usage
    return FilterFault(), usage


def candidate_of(options: Sequence[str]) -> str:
    """Return the options as one string, in the format of ELKEN's files."""
    return " ".join(f"({letter}) {option}" for letter, option in zip("ABC", options, strict=True))


def finish(state: TendencyState) -> dict[str, Any]:
    """Return the remaining events, if there are any."""
    return {"result": {"events": state["events"]}} if state["events"] else {}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph write_events -> check_events -> ask_questions -> check_questions ->
    try_questions -> finish.

    Recipe `paper` has take_lines, which only drops duplicates, instead of the checks and trials.
    """
    check, trials = (
        (check_events, (check_questions, try_questions)) if recipe == "best" else (take_lines, ())
    )
    nodes = (write_events, check, ask_questions, *trials, finish)
    return checking_graph("build_tendencies", TendencyState, *nodes, checks={check: write_events})


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters of events and questions; the paper drops duplicates, followed by human
    review.
    """
    duplicate = FilterInfo(
        rejects="An event shares too many words with an earlier one (ROUGE-1 above 0.4)."
    )
    any_event = FilterInfo(rejects="None of the events in a reply passed the filters.")
    readable = FilterInfo(rejects="The author's questions about an event cannot be parsed.")
    if recipe == "paper":
        return {DUPLICATE: duplicate, ANY_EVENT: any_event, READABLE: readable}
    same_meaning = FilterInfo(
        rejects="An English event is similar in meaning to an earlier one (MiniLM, cosine above "
        "0.72)."
    )
    return {
        **describe(EVENT_FILTERS, EVENT_REJECTS),
        DUPLICATE: duplicate, SAME_MEANING: same_meaning, ANY_EVENT: any_event, READABLE: readable,
        **describe(QUESTION_FILTERS, QUESTION_REJECTS),
        FOLLOWS: FilterInfo(rejects="A model that reads the event does not choose the "
                                    "intended option."),
        STEADY: FilterInfo(rejects="The model chooses another option when the options are in "
                                   "another order."),
        UNGUESSABLE: FilterInfo(rejects="A model that does not read the event chooses the "
                                        "intended option."),
        ANOTHER: FilterInfo(rejects="No question in scope is about an entity that the event does "
                                    "not name."),
        ENOUGH: FilterInfo(rejects="Too few questions about an event passed the filters."),
    }  # fmt: skip


PIPELINE = Pipeline(
    name="tendencies",
    build=build,
    filters=filters,
    prompts=lambda recipe: (
        "tendency_events", "tendency_questions", *(["tendency_choice"] if recipe == "best" else []),
    ),
    sample=sample,
)  # fmt: skip
