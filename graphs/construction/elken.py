"""ELKEN (appendix A.1): an event that a template states is worded anew, as a journalist would.

The event, its answers and its questions are composed beforehand. `paper` takes what the author writes; `best` filters
it, lets the judge say whether it conveys the event, and asks for another wording where it does not.
"""

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, write_text
from emend.graphs.construction.akew import CONVEYS, LANGUAGES, AkewState, judge_paragraph
from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.texts import (
    ABOUT_OBJECTS,
    TEXT_FILTERS,
    AuthoredDraft,
    TextFilter,
    find_foreign_besides,
    find_wrong_length,
    first_fault,
    summary_of,
    without_quotations,
)
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    may_retry,
    reject,
)
from emend.graphs.execution import Graph
from emend.graphs.extraction.sentences import split_sentences

NAMED = "key_information"
BOUNDS = 4, 150
"""Words of one to five sentences."""
SENTENCES = 6
"""Maximum number of sentences outside quotations; five are asked for, and an abbreviation may look like an end."""


def find_long_report(draft: AuthoredDraft) -> str:
    """The text is too short or too long for a report."""
    count = len(split_sentences(without_quotations(draft.text)))
    return f"the text has {count} sentences" if count > SENTENCES else find_wrong_length(draft)


def find_no_statement(draft: AuthoredDraft) -> str:
    """The text only asks."""
    sentences = split_sentences(without_quotations(draft.text))
    return "the text states nothing" if all(each.rstrip().endswith(("?", "？")) for each in sentences) else ""


FILTERS: Mapping[str, TextFilter] = {
    **{name: find for name, find in TEXT_FILTERS.items() if name not in ABOUT_OBJECTS},
    "length": find_long_report,
    "statement": find_no_statement,
}


def write(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Word the event anew; after a rejection, in another way."""
    context = runtime.context
    problem = state.get("problem", "").partition(":")[0]
    language = LANGUAGES.get(context.language, context.language)
    prompt = context.prompt("event_report").fill(problem, event=state["item"]["text"], language=language)
    written = write_text(context.author, prompt)
    return {
        "prompt": prompt.text.rpartition(context.prompt("event_report").ask.partition("{")[0])[0],
        "paragraph": written.text,
        "is_cut_off": written.is_cut_off,
        "is_refused": written.is_refused,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a text that cannot serve, or that lacks a name of the event."""
    draft = AuthoredDraft(
        state["paragraph"],
        subject="",
        new="",
        prompt=state["prompt"],
        fact=state["item"]["text"],
        language=runtime.context.language,
        is_cut_off=state["is_cut_off"],
        is_refused=state["is_refused"],
        bounds=BOUNDS,
    )
    names_of_event = state["item"]["names"]
    # a report is so short that names may be most of it
    filters_of_event = {**FILTERS, "language": lambda draft: find_foreign_besides(draft, names_of_event)}
    name, reason = first_fault(draft, filters_of_event)
    filters = list(FILTERS)
    if name:
        return reject(state, name, reason, *filters[: filters.index(name)])
    missing = next((each for each in names_of_event if not names(state["paragraph"], each)), "")
    if missing:
        return reject(state, NAMED, f"the text does not name '{missing}'", *filters)
    return accept(*filters, NAMED)


def verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the text conveys the event."""
    return judge_paragraph(state, runtime.context, state["item"]["text"])


def finish(state: AkewState) -> dict[str, Any]:
    """Take the wording as the event."""
    return {"result": {"event": " ".join(state["paragraph"].split())}}


def after_check(state: AkewState, runtime: Runtime[ConstructionContext]) -> Literal["verify", "write", "__end__"]:
    """Verify a text that passes; write another one while attempts are left."""
    return "verify" if not state["problem"] else _write_again(state, runtime)


def after_verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> Literal["finish", "write", "__end__"]:
    """Finish with a text that conveys the event; write another one while attempts are left."""
    return "finish" if not state["problem"] else _write_again(state, runtime)


def _write_again(state: AkewState, runtime: Runtime[ConstructionContext]) -> Literal["write", "__end__"]:
    return "write" if may_retry(state, runtime.context) else "__end__"


def build(recipe: Recipe = "best") -> Graph:
    """Write -> check the text -> verify -> finish; `paper` only writes."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(AkewState, context_schema=ConstructionContext)
    graph.add_node("write", write)
    graph.add_node("finish", finish)
    graph.add_edge(START, "write")
    if recipe == "paper":
        graph.add_edge("write", "finish")
    else:
        graph.add_node("check_text", check_text)
        graph.add_node("verify", verify)
        graph.add_edge("write", "check_text")
        graph.add_conditional_edges("check_text", after_check)
        graph.add_conditional_edges("verify", after_verify)
    graph.set_finish_point("finish")
    return graph.compile(name="build_elken")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters in order; the paper had people alone."""
    if recipe == "paper":
        return {}
    texts = {name: FilterInfo(rejects=summary_of(find)) for name, find in FILTERS.items()}
    return {
        **texts,
        NAMED: FilterInfo(rejects="The text lacks a name of the event."),
        CONVEYS: FilterInfo(rejects="The judge says that the text does not convey the event."),
    }


def sample(prompt: str) -> str:
    """The event with a sentence more, or the judge's True."""
    if SHIPPED[CONVEYS].task[:40] in prompt:
        return "True"
    event = prompt.rpartition("Event: ")[2].partition("\n")[0].strip()
    return f"{event} The news was announced on Monday in front of a small group of guests and reporters."


PIPELINE = Pipeline(
    name="elken", build=build, filters=filters, prompts=lambda recipe: ("event_report", CONVEYS), sample=sample
)
