"""AKEW's WikiUpdate pipeline (section 4.2 and appendix A): the leads of two Wikipedia pages are the
document of an updated fact.

Recipe `paper` asks the judge whether the leads convey the fact, and does not filter the triplets.
Recipe `best` first checks by rules that the leads are text of pages, and name the subject and the
new object.
"""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from emend.graphs.construction.akew import CONVEYS, AkewState, extract, finish, sample, verify
from emend.graphs.construction.filters.pages import PAGE_FILTERS
from emend.graphs.construction.filters.texts import AuthoredDraft
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
from emend.memory.probe import Usage


def join_leads(state: AkewState) -> dict[str, Any]:
    """Join the leads of the subject's and the object's page."""
    item = state["item"]
    leads = dict.fromkeys(lead.strip() for lead in (item["subject_lead"], item["new_lead"]))
    return {
        "paragraph": "\n\n".join(filter(None, leads)),
        "attempts": 1,
        "problem": "",
        "usage": Usage(),
    }


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject leads that are missing, not an article in the language, or do not name subject and new
    object.
    """
    item = state["item"]
    draft = AuthoredDraft(
        state["paragraph"],
        item["subject"],
        item["object"],
        fact=item["fact"],
        language=runtime.context.language,
    )
    return apply_filters(state, draft, PAGE_FILTERS)


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph join_leads -> check_text -> verify -> extract -> finish; recipe `paper` skips
    check_text.
    """
    checks = [check_text, verify] if recipe == "best" else [verify]
    ends = dict.fromkeys(checks)
    return checking_graph(
        "build_wikiupdate", AkewState, join_leads, *checks, extract, finish, checks=ends
    )


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters in order."""
    conveys = FilterInfo(
        rejects="According to the judge, the leads do not convey the fact.",
        published="1,067 of some 1,500 updates remain, after human review too (section 4.2, Table "
        "5)",
    )
    return {**(describe(PAGE_FILTERS) if recipe == "best" else {}), CONVEYS: conveys}


PIPELINE = Pipeline(
    name="wikiupdate",
    build=build,
    filters=filters,
    prompts=lambda recipe: (CONVEYS,),
    sample=sample,
)
