"""ELKEN (appendix A.1): an event that a template states is worded anew, as a journalist would.

The event, its answers and its questions are composed beforehand. `paper` takes what the author writes; `best` filters
it, lets the judge say whether it conveys the event, and asks for another wording where it does not.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.akew import CONVEYS, AkewState, draft_of, judge_paragraph, write_draft
from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.texts import (
    ABOUT_OBJECTS,
    TEXT_FILTERS,
    AuthoredDraft,
    TextFilter,
    find_foreign_besides,
    find_wrong_length,
    without_quotations,
)
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    FilterInfo,
    Pipeline,
    Recipe,
    apply_filters,
    checking_graph,
    describe,
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
    return write_draft(state, runtime.context, "event_report", event=state["item"]["text"])


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a text that cannot serve, or that lacks a name of the event."""
    event, names_of_event = state["item"]["text"], state["item"]["names"]
    fact = {"subject": "", "object": "", "old": "", "fact": event}
    # a report is so short that names may be most of it
    filters_of_event = {
        **FILTERS,
        "language": lambda draft: find_foreign_besides(draft, names_of_event),
        NAMED: lambda draft: find_missing_name(draft, names_of_event),
    }
    return apply_filters(state, draft_of(state, runtime.context, fact, bounds=BOUNDS), filters_of_event)


def find_missing_name(draft: AuthoredDraft, names_of_event: Iterable[str]) -> str:
    """The text lacks a name of the event."""
    missing = next((each for each in names_of_event if not names(draft.text, each)), "")
    return f"the text does not name '{missing}'" if missing else ""


def verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the text conveys the event."""
    return judge_paragraph(state, runtime.context, state["item"]["text"])


def finish(state: AkewState) -> dict[str, Any]:
    """Take the wording as the event."""
    return {"result": {"event": " ".join(state["paragraph"].split())}}


def build(recipe: Recipe = "best") -> Graph:
    """Write -> check the text -> verify -> finish; `paper` only writes."""
    checks = (check_text, verify) if recipe == "best" else ()
    return checking_graph("build_elken", AkewState, write, *checks, finish, checks=dict.fromkeys(checks, write))


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters in order; the paper had people alone."""
    conveys = FilterInfo(rejects="The judge says that the text does not convey the event.")
    return {} if recipe == "paper" else {**describe({**FILTERS, NAMED: find_missing_name}), CONVEYS: conveys}


def sample(prompt: str) -> str:
    """The event with a sentence more, or the judge's True."""
    if SHIPPED[CONVEYS].task[:40] in prompt:
        return "True"
    event = prompt.rpartition("Event: ")[2].partition("\n")[0].strip()
    return f"{event} The news was announced on Monday in front of a small group of guests and reporters."


PIPELINE = Pipeline(
    name="elken", build=build, filters=filters, prompts=lambda recipe: ("event_report", CONVEYS), sample=sample
)
