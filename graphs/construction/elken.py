"""ELKEN pipeline (appendix A.1): rewrite an event composed from a template as a journalist would.

The event, its answers and its questions are composed beforehand. Recipe `paper` accepts any
wording; recipe `best` filters it, asks the judge whether it conveys the event, and retries after a
rejection.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.akew import (
    CONVEYS,
    AkewState,
    draft_of,
    judge_paragraph,
    write_draft,
)
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
# Minimum and maximum number of words; the prompt asks for one to five sentences.
BOUNDS = 4, 150
# Maximum number of sentences outside quotations; the prompt asks for five, and an abbreviation may
# look like the end of a sentence.
SENTENCES = 6


def find_long_report(draft: AuthoredDraft) -> str:
    """The text is too short or too long for a report."""
    count = len(split_sentences(without_quotations(draft.text)))
    return f"the text has {count} sentences" if count > SENTENCES else find_wrong_length(draft)


def find_no_statement(draft: AuthoredDraft) -> str:
    """The text consists of a question."""
    sentences = split_sentences(without_quotations(draft.text))
    if all(each.rstrip().endswith(("?", "？")) for each in sentences):
        return "the text states nothing"
    return ""


FILTERS: Mapping[str, TextFilter] = {
    **{name: find for name, find in TEXT_FILTERS.items() if name not in ABOUT_OBJECTS},
    "length": find_long_report,
    "statement": find_no_statement,
}


def write(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Paraphrase the event, or paraphrase it again after a rejection."""
    return write_draft(state, runtime.context, "event_report", event=state["item"]["text"])


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject unusable texts by rules, and texts that lack a name of the event."""
    event, names_of_event = state["item"]["text"], state["item"]["names"]
    fact = {"subject": "", "object": "", "old": "", "fact": event}
    # names, which have no language, may be most of a short report
    filters_of_event = {
        **FILTERS,
        "language": lambda draft: find_foreign_besides(draft, names_of_event),
        NAMED: lambda draft: find_missing_name(draft, names_of_event),
    }
    return apply_filters(
        state, draft_of(state, runtime.context, fact, bounds=BOUNDS), filters_of_event
    )


def find_missing_name(draft: AuthoredDraft, names_of_event: Iterable[str]) -> str:
    """The text does not contain all names of the event."""
    missing = next((each for each in names_of_event if not names(draft.text, each)), "")
    return f"the text does not name '{missing}'" if missing else ""


def verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the text conveys the event."""
    return judge_paragraph(state, runtime.context, state["item"]["text"])


def finish(state: AkewState) -> dict[str, Any]:
    """Return the paraphrase as the event."""
    return {"result": {"event": " ".join(state["paragraph"].split())}}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph write -> check_text -> verify -> finish; recipe `paper` has no checks."""
    checks = (check_text, verify) if recipe == "best" else ()
    return checking_graph(
        "build_elken", AkewState, write, *checks, finish, checks=dict.fromkeys(checks, write)
    )


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters in order; recipe `paper` has none, since the paper used human review."""
    conveys = FilterInfo(rejects="According to the judge, the text does not convey the event.")
    if recipe == "paper":
        return {}
    return {**describe({**FILTERS, NAMED: find_missing_name}), CONVEYS: conveys}


def sample(prompt: str) -> str:
    """Return the event with an additional sentence, or a judge's True."""
    if SHIPPED[CONVEYS].task[:40] in prompt:
        return "True"
    event = prompt.rpartition("Event: ")[2].partition("\n")[0].strip()
    return (
        f"{event} The news was announced on Monday in front of a small group of guests and "
        "reporters."
    )


PIPELINE = Pipeline(
    name="elken",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("event_report", CONVEYS),
    sample=sample,
)
