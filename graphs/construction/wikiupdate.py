"""AKEW's WikiUpdate (sections 4.2 and appendix A): the leads of two pages as the document of an updated fact.

`paper` asks the judge whether the leads convey the fact, and never filters the triplets. `best` first looks whether the
leads are those of pages, and name the subject and the new object at all, which costs nothing.
"""

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from emend.graphs.construction.akew import CONVEYS, AkewState, extract, finish, sample, verify
from emend.graphs.construction.filters.pages import PAGE_FILTERS
from emend.graphs.construction.filters.texts import AuthoredDraft, first_fault, summary_of
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    reject,
)
from emend.graphs.execution import Graph
from emend.memory.probe import Usage


def join_leads(state: AkewState) -> dict[str, Any]:
    """Join the leads of the subject's and the object's page."""
    item = state["item"]
    leads = dict.fromkeys(lead.strip() for lead in (item["subject_lead"], item["new_lead"]))
    return {"paragraph": "\n\n".join(filter(None, leads)), "attempts": 1, "problem": "", "usage": Usage()}


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject leads that are missing, of no page of the language, or do not name subject and new object."""
    item = state["item"]
    draft = AuthoredDraft(
        state["paragraph"], item["subject"], item["object"], fact=item["fact"], language=runtime.context.language
    )
    name, reason = first_fault(draft, PAGE_FILTERS)
    names = list(PAGE_FILTERS)
    return reject(state, name, reason, *names[: names.index(name)]) if name else accept(*names)


def after_check(state: AkewState) -> Literal["verify", "__end__"]:
    """Verify leads that pass."""
    return "__end__" if state["problem"] else "verify"


def after_verify(state: AkewState) -> Literal["extract", "__end__"]:
    """Extract from leads that convey the fact."""
    return "__end__" if state["problem"] else "extract"


def build(recipe: Recipe = "best") -> Graph:
    """Join the leads -> check the text -> verify -> extract -> finish; `paper` has no check of the text."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(AkewState, context_schema=ConstructionContext)
    graph.add_node("join_leads", join_leads)
    if recipe == "best":
        graph.add_node("check_text", check_text)
        graph.add_edge("join_leads", "check_text")
        graph.add_conditional_edges("check_text", after_check)
    else:
        graph.add_edge("join_leads", "verify")
    graph.add_node("verify", verify)
    graph.add_node("extract", extract)
    graph.add_node("finish", finish)
    graph.add_edge(START, "join_leads")
    graph.add_conditional_edges("verify", after_verify)
    graph.add_edge("extract", "finish")
    graph.set_finish_point("finish")
    return graph.compile(name="build_wikiupdate")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters in order."""
    texts = {name: FilterInfo(rejects=summary_of(find)) for name, find in PAGE_FILTERS.items()}
    conveys = FilterInfo(
        rejects="The judge says that the leads do not convey the fact.",
        published="1,067 of some 1,500 updates left, after people too (section 4.2, Table 5)",
    )
    return {**(texts if recipe == "best" else {}), CONVEYS: conveys}


PIPELINE = Pipeline(name="wikiupdate", build=build, filters=filters, prompts=lambda recipe: (CONVEYS,), sample=sample)
