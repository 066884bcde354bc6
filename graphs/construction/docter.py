"""DocTER pipeline (sections 4.2 and 4.4): write a press document about a counterfactual fact, and a
yes or no reasoning question.

Recipe `paper` writes a document, asks the judge whether it conveys the fact, and retries if not. If
documents or queries are not in English, the fact is translated first, and there is no reasoning
question. Recipe `best` also filters the texts, has a reader complete the cloze with and without
the document, checks translations by back-translation, and has the judge answer the reasoning
question.
"""

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import write_text
from emend.graphs.construction.akew import (
    CONVEYS,
    AkewState,
    draft_of,
    judge_paragraph,
    write_draft,
)
from emend.graphs.construction.docter_reasoning import (
    FOLLOWS,
    ReasoningState,
    ask_reasoning,
    check_reasoning,
    reasoning_filters,
)
from emend.graphs.construction.docter_samples import sample
from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.texts import TEXT_FILTERS
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    FilterInfo,
    Node,
    Pipeline,
    Recipe,
    accept,
    add_nodes,
    apply_filters,
    describe,
    may_retry,
    reject,
)
from emend.graphs.construction.translation import (
    TRANSLATED,
    TRANSLATION_FILTERS,
    TranslationState,
    check_translation,
    language_of_translation,
    translate,
)
from emend.graphs.execution import Graph

COMPLETE = "How does this sentence end? {query} ..."
ANSWERABLE, UNGUESSABLE = "answerable", "not_guessable"
TOKENS_PER_WORD = 2


class DocterState(AkewState, ReasoningState, TranslationState, total=False):
    """State of the DocTER graph; the item has the fact with `query` and `old`.

    `readings` are a reader's answers with and without the document.
    """

    readings: dict[str, str]


def fact_of(state: DocterState, context: ConstructionContext) -> Mapping[str, Any]:
    """Return the fact in the language of its document."""
    is_translated = context.language != "en" and state.get("translated")
    return state["translated"] if is_translated else state["item"]


def write(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Write a press document that states the fact, or another one after a rejection."""
    context = runtime.context
    values = {"style": context.style, "words": str(context.words)}
    fact = str(fact_of(state, context)["fact"])
    return write_draft(
        state, context, "press_document", TOKENS_PER_WORD * context.words, fact=fact, **values
    )


def check_text(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject unusable texts by rules: refusals, fragments, instructions, texts that name the old
    object.
    """
    context = runtime.context
    bounds = (context.words // 3, 4 * context.words)
    return apply_filters(
        state, draft_of(state, context, fact_of(state, context), bounds=bounds), TEXT_FILTERS
    )


def verify(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the document conveys the fact."""
    return judge_paragraph(state, runtime.context, str(fact_of(state, runtime.context)["fact"]))


def read_document(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let a model complete the cloze with the document and without it."""
    context, fact = runtime.context, fact_of(state, runtime.context)
    question = COMPLETE.format(query=fact["query"])
    with_it = context.prompt("read_with").fill(document=state["paragraph"], question=question)
    informed = write_text(context.judge, with_it, 32)
    uninformed = write_text(
        context.judge, context.prompt("read_without").fill(question=question), 32
    )
    update: dict[str, Any] = accept(ANSWERABLE, UNGUESSABLE)
    if not names(informed.text, fact["object"]):
        update = reject(
            state, ANSWERABLE, f"a reader of the document answers '{informed.text[:40]}'"
        )
    elif names(uninformed.text, fact["object"]):
        update = reject(
            state, UNGUESSABLE, "a reader without the document gives the new object too", ANSWERABLE
        )
    usage = informed.usage.plus(uninformed.usage)
    return {
        **update,
        "readings": {"with": informed.text, "without": uninformed.text},
        "usage": usage,
    }


def query_language(language: str, queries: str) -> str:
    """Return the language of queries, which defaults to English for Chinese documents, and else to
    the documents' language.
    """
    return queries or ("en" if language == "zh" else language)


def finish(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Assemble the item."""
    return {
        "result": {
            "document": state["paragraph"],
            "language": runtime.context.language,
            "queries": query_language(runtime.context.language, runtime.context.queries),
            "translated": state.get("translated"),
            "reasoning": state.get("reasoning"),
        }
    }


def begin(
    state: DocterState, runtime: Runtime[ConstructionContext]
) -> Literal["translate", "write"]:
    """Return the first node: `write` if all texts are in English, else `translate`."""
    return "write" if language_of_translation(runtime.context) == "en" else "translate"


def after_reading(
    state: DocterState, runtime: Runtime[ConstructionContext]
) -> Literal["ask_reasoning", "write", "__end__"]:
    """Return the node after `read_document`.

    A new document is written if the reader did not find the answer in it; if the reader knew the
    answer without the document, the graph ends.
    """
    if not state["problem"]:
        return "ask_reasoning"
    is_unclear = state["passed"].get(ANSWERABLE) is False
    return "write" if is_unclear and may_retry(state, runtime.context) else "__end__"


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph translate -> check_translation -> write -> check_text -> verify ->
    read_document -> ask_reasoning -> check_reasoning -> finish.

    Recipe `paper` only has translate, write, verify, ask_reasoning and finish. If all texts are in
    English, the translation is skipped.
    """
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        DocterState, context_schema=ConstructionContext
    )
    graph.add_conditional_edges(START, begin)
    translation = (translate,) if recipe == "paper" else (translate, check_translation)
    again: dict[Node, Node | None] = dict.fromkeys(translation, translate)
    add_nodes(graph, *translation, checks=again, end="write", counter="translations")
    if recipe == "paper":
        add_nodes(graph, write, verify, ask_reasoning, finish, checks={verify: write})
    else:
        add_nodes(
            graph,
            write,
            check_text,
            verify,
            checks={check_text: write, verify: write},
            end="read_document",
        )
        graph.add_node("read_document", read_document)
        graph.add_conditional_edges("read_document", after_reading)
        add_nodes(graph, ask_reasoning, check_reasoning, finish, checks={})
    return graph.compile(name="build_docter")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters in order; the paper has the judge, followed by human review."""
    conveys = FilterInfo(
        rejects="According to the judge, the document does not convey the fact.",
        published="about 93% at the first attempt; 74% after human review (appendix A)",
    )
    if recipe == "paper":
        readable = {TRANSLATED: TRANSLATION_FILTERS[TRANSLATED]}
        return readable | {CONVEYS: conveys} | reasoning_filters()
    return {
        **TRANSLATION_FILTERS,
        **describe(TEXT_FILTERS),
        CONVEYS: conveys,
        ANSWERABLE: FilterInfo(
            rejects="A model that reads the document does not complete the cloze with the new "
            "object."
        ),
        UNGUESSABLE: FilterInfo(
            rejects="A model that does not read the document also gives the new object."
        ),
        **reasoning_filters(),
        FOLLOWS: FilterInfo(
            rejects="The judge's answer to the question differs from the intended one. Drops the "
            "question alone."
        ),
    }


PIPELINE = Pipeline(
    name="docter",
    build=build,
    filters=filters,
    prompts=lambda recipe: (
        "press_document", CONVEYS, "object_knowledge", "reasoning_question", FOLLOWS,
        "translate_fact",
        "translate_back", "read_with", "read_without",
    ),
    sample=sample,
    attempts={"paper": 3, "best": 3},
)  # fmt: skip
