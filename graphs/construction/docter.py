"""DocTER (sections 4.2 and 4.4): a counterfactual fact becomes a press document, and a yes or no question follows.

`paper` writes a document, asks the judge whether it conveys the fact, and writes another one if not. Where documents or
queries are in another language than English the fact is translated first, and no question follows. `best` filters texts
first, lets a reader try the cloze with the document and without it, translates back, and lets the judge answer the
question.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import write_text
from emend.graphs.construction.akew import CONVEYS, LANGUAGES, AkewState, judge_paragraph
from emend.graphs.construction.docter_reasoning import (
    FOLLOWS,
    ReasoningState,
    ask_reasoning,
    check_reasoning,
    reasoning_filters,
)
from emend.graphs.construction.docter_samples import sample
from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.texts import TEXT_FILTERS, AuthoredDraft, first_fault, summary_of
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
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
    """The item has the fact with `query` and `old`; document, translation and reasoning question are added."""

    readings: dict[str, str]


def fact_of(state: DocterState, context: ConstructionContext) -> Mapping[str, Any]:
    """The fact in the language of its document."""
    is_translated = context.language != "en" and state.get("translated")
    return state["translated"] if is_translated else state["item"]


def write(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Write a press document that states the fact; after a rejection, another one."""
    context = runtime.context
    language = LANGUAGES.get(context.language, context.language)
    shipped = context.prompt("press_document")
    problem = state.get("problem", "").partition(":")[0]
    values = {"language": language, "style": context.style, "words": str(context.words)}
    prompt = shipped.fill(problem, fact=str(fact_of(state, context)["fact"]), **values)
    written = write_text(context.author, prompt, TOKENS_PER_WORD * context.words)
    return {
        "prompt": prompt.text.rpartition(shipped.ask.partition("{")[0])[0],
        "paragraph": written.text,
        "is_cut_off": written.is_cut_off,
        "is_refused": written.is_refused,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_text(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a text that cannot serve, whatever it says: refusals, fragments, the old object, instructions."""
    context = runtime.context
    fact = fact_of(state, context)
    draft = AuthoredDraft(
        text=state["paragraph"],
        subject=fact["subject"],
        new=fact["object"],
        old=fact["old"],
        prompt=state["prompt"],
        fact=fact["fact"],
        language=context.language,
        is_cut_off=state["is_cut_off"],
        is_refused=state["is_refused"],
        bounds=(context.words // 3, 4 * context.words),
    )
    name, reason = first_fault(draft)
    filters = list(TEXT_FILTERS)
    return reject(state, name, reason, *filters[: filters.index(name)]) if name else accept(*filters)


def verify(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the document conveys the fact."""
    return judge_paragraph(state, runtime.context, str(fact_of(state, runtime.context)["fact"]))


def read_document(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let a reader end the cloze with the document and without it."""
    context, fact = runtime.context, fact_of(state, runtime.context)
    question = COMPLETE.format(query=fact["query"])
    with_it = context.prompt("read_with").fill(document=state["paragraph"], question=question)
    informed = write_text(context.judge, with_it, 32)
    uninformed = write_text(context.judge, context.prompt("read_without").fill(question=question), 32)
    update: dict[str, Any] = accept(ANSWERABLE, UNGUESSABLE)
    if not names(informed.text, fact["object"]):
        update = reject(state, ANSWERABLE, f"a reader of the document answers '{informed.text[:40]}'")
    elif names(uninformed.text, fact["object"]):
        update = reject(state, UNGUESSABLE, "a reader without the document gives the new object too", ANSWERABLE)
    usage = informed.usage.plus(uninformed.usage)
    return {**update, "readings": {"with": informed.text, "without": uninformed.text}, "usage": usage}


def query_language(language: str, queries: str) -> str:
    """The language of queries: the chosen one, else English for Chinese documents, else that of the documents."""
    return queries or ("en" if language == "zh" else language)


def finish(state: DocterState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Put the item together."""
    return {
        "result": {
            "document": state["paragraph"],
            "language": runtime.context.language,
            "queries": query_language(runtime.context.language, runtime.context.queries),
            "translated": state.get("translated"),
            "reasoning": state.get("reasoning"),
        }
    }


def begin(state: DocterState, runtime: Runtime[ConstructionContext]) -> Literal["translate", "write"]:
    """Translate the fact first where documents or queries are not in English."""
    return "write" if language_of_translation(runtime.context) == "en" else "translate"


def after_translation(
    state: DocterState, runtime: Runtime[ConstructionContext]
) -> Literal["check_translation", "translate", "__end__"]:
    """Check a translation that could be read; else ask for another one while attempts are left."""
    return "check_translation" if not state["problem"] else _translate_again(state, runtime)


def after_check_translation(
    state: DocterState, runtime: Runtime[ConstructionContext]
) -> Literal["write", "translate", "__end__"]:
    """Write about a fact whose translation passes; else translate again while attempts are left."""
    return "write" if not state["problem"] else _translate_again(state, runtime)


def _translate_again(state: DocterState, runtime: Runtime[ConstructionContext]) -> Literal["translate", "__end__"]:
    return "translate" if state["translations"] < runtime.context.attempts else "__end__"


def after_check(state: DocterState, runtime: Runtime[ConstructionContext]) -> Literal["verify", "write", "__end__"]:
    """Verify a text that passes; write another one while attempts are left."""
    return "verify" if not state["problem"] else _write_again(state, runtime)


def after_verify(
    state: DocterState, runtime: Runtime[ConstructionContext]
) -> Literal["read_document", "write", "__end__"]:
    """Read a document that conveys the fact; write another one while attempts are left."""
    return "read_document" if not state["problem"] else _write_again(state, runtime)


def after_reading(
    state: DocterState, runtime: Runtime[ConstructionContext]
) -> Literal["ask_reasoning", "write", "__end__"]:
    """Go on with a document that answers; write another one, unless its answer was known without it."""
    if not state["problem"]:
        return "ask_reasoning"
    return _write_again(state, runtime) if state["passed"].get(ANSWERABLE) is False else "__end__"


def _write_again(state: DocterState, runtime: Runtime[ConstructionContext]) -> Literal["write", "__end__"]:
    return "write" if may_retry(state, runtime.context) else "__end__"


def build(recipe: Recipe = "best") -> Graph:
    """Translate -> write -> check -> verify -> read -> ask a question -> check it -> finish; `paper` has no checks."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(DocterState, context_schema=ConstructionContext)
    for node in (translate, write, verify, ask_reasoning, finish):
        graph.add_node(node.__name__, node)
    graph.add_conditional_edges(START, begin)
    if recipe == "paper":
        again: dict[Hashable, str] = {"translate": "translate", "write": "write", END: END}
        graph.add_conditional_edges("translate", after_translation, again | {"check_translation": "write"})
        graph.add_edge("write", "verify")
        graph.add_conditional_edges("verify", after_verify, again | {"read_document": "ask_reasoning"})
        graph.add_edge("ask_reasoning", "finish")
    else:
        for node in (check_translation, check_text, read_document, check_reasoning):
            graph.add_node(node.__name__, node)
        graph.add_conditional_edges("translate", after_translation)
        graph.add_conditional_edges("check_translation", after_check_translation)
        graph.add_edge("write", "check_text")
        graph.add_conditional_edges("check_text", after_check)
        graph.add_conditional_edges("verify", after_verify)
        graph.add_conditional_edges("read_document", after_reading)
        graph.add_edge("ask_reasoning", "check_reasoning")
        graph.add_edge("check_reasoning", "finish")
    graph.set_finish_point("finish")
    return graph.compile(name="build_docter")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters in order; the paper had the judge's and people after it."""
    conveys = FilterInfo(
        rejects="The judge says that the document does not convey the fact.",
        published="about 93% at the first attempt; 74% after people (appendix A)",
    )
    if recipe == "paper":
        readable = {TRANSLATED: TRANSLATION_FILTERS[TRANSLATED]}
        return readable | {CONVEYS: conveys} | reasoning_filters()
    texts = {name: FilterInfo(rejects=summary_of(find)) for name, find in TEXT_FILTERS.items()}
    return {
        **TRANSLATION_FILTERS,
        **texts,
        CONVEYS: conveys,
        ANSWERABLE: FilterInfo(rejects="A reader of the document does not end the cloze with the new object."),
        UNGUESSABLE: FilterInfo(rejects="A reader without the document gives the new object too."),
        **reasoning_filters(),
        FOLLOWS: FilterInfo(rejects="The judge answers the question otherwise than planned. Drops the question alone."),
    }


PIPELINE = Pipeline(
    name="docter",
    build=build,
    filters=filters,
    prompts=lambda recipe: (
        "press_document", CONVEYS, "object_knowledge", "reasoning_question", FOLLOWS, "translate_fact",
        "translate_back", "read_with", "read_without",
    ),
    sample=sample,
    attempts={"paper": 3, "best": 3},
)  # fmt: skip
