"""Document -> triplets: segment, resolve coreference, extract, normalise, validate, deduplicate.

The pipeline extract-then-edit of "DocTER: Evaluating Document-based Knowledge Editing", section 5. A model's reply that
cannot be read is asked for again a bounded number of times; then the document has no triplets, a reason, and the reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.graphs.execution import run_graph
from emend.graphs.extraction import canonical
from emend.graphs.extraction.base import Extractor
from emend.graphs.extraction.load import load_extractor
from emend.memory.edit import Edit, FrozenModel, Triplet, content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings, ModelReplyError, ReplyCutOff, ReplyRefused
from emend.memory.probe import Usage
from emend.memory.registry import nearest

RECURSION_LIMIT = 24
"""Six steps and the readings that are tried again."""
ATTEMPTS_LIMIT = 10
SAME = 0.9
"""Two triplets above this cosine say the same (DocTER, section 5)."""
VALIDATIONS = ("both", "subject", "off")
NOTHING = "no triplet was found in the document"
DROPPED_ALL = "no triplet was left: none of those found has an entity at both ends"
PAST_ALL = "no triplet was left: all that were found tell what held before"


class ExtractState(TypedDict, total=False):
    """JSON values: `document` and `language` go in, the rest is added; triplets are dicts of `Triplet`.

    `final` says of a failure that asking again is of no use.
    """

    document: str
    language: str
    sentences: list[str]
    triplets: list[dict[str, Any]]
    past: list[dict[str, Any]]
    invalid: list[dict[str, Any]]
    repeated: list[dict[str, Any]]
    attempts: int
    failure: str
    reply: str
    final: bool
    reason: str
    usage: dict[str, int]


@dataclass(frozen=True)
class ExtractContext:
    """The extractor, the embedding that tells repetitions, and what of the pipeline is switched on.

    `validation` is `both` (an entity at both ends, DocTER's rule), `subject` (at the subject's) or `off`; `attempts` is
    how often an extractor is asked before a document is given up.
    """

    extractor: Extractor
    embedding: Embedding
    coreference: bool = True
    validation: str = "both"
    deduplication: bool = True
    attempts: int = 3
    normalisation: bool = True

    def __post_init__(self) -> None:
        if self.validation not in VALIDATIONS:
            raise BadSettings(f"unknown validation '{self.validation}': {nearest(self.validation, list(VALIDATIONS))}")
        if not 1 <= self.attempts <= ATTEMPTS_LIMIT:
            raise BadSettings(f"attempts={self.attempts}: give a number from 1 to {ATTEMPTS_LIMIT}.")

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change when what comes out may change."""
        form = canonical.fingerprint() if self.normalisation else ""
        told = (self.coreference, self.validation, self.deduplication, self.embedding.identity, self.attempts, form)
        return content_id(self.extractor.fingerprint, *told)[:12]


C = TypeVar("C", bound=ExtractContext)


def segment(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """The document in sentences; whole, for an extractor that reads it so."""
    extractor = runtime.context.extractor
    whole = [state["document"]] if state["document"].strip() else []
    return {"sentences": whole if extractor.whole else extractor.segment(state["document"])}


def resolve(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Names for pronouns, where that is switched on and the extractor does not read the document whole."""
    context = runtime.context
    wanted = context.coreference and not context.extractor.whole
    return {"sentences": context.extractor.resolve(state["sentences"]) if wanted else state["sentences"]}


def extract(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """The triplets; a reply that cannot be read is put down as a failure."""
    tried, usage = state.get("attempts", 0) + 1, Usage.model_validate(state.get("usage", {}))
    language = state.get("language", "en")
    try:
        found = runtime.context.extractor.extract(state["sentences"], language, state.get("failure", ""))
    except ModelReplyError as error:
        spent = usage.plus(error.usage).model_dump()
        final = isinstance(error, (ReplyRefused, ReplyCutOff))  # asked again, it would say the same
        return {"attempts": tried, "failure": str(error), "reply": error.reply, "usage": spent, "final": final}
    triplets = [triplet.model_dump() for triplet in found.triplets]
    told: ExtractState = {"attempts": tried, "failure": "", "reply": "", "triplets": triplets}
    return {**told, "reason": "" if triplets else NOTHING, "usage": usage.plus(found.usage).model_dump()}


def after_extract(state: ExtractState, runtime: Runtime[C]) -> Literal["extract", "give_up", "normalise"]:
    """Again after a failure, while attempts are left."""
    if not state["failure"]:
        return "normalise"
    again = state["attempts"] < runtime.context.attempts and not state.get("final", False)
    return "extract" if again else "give_up"


def give_up(state: ExtractState) -> ExtractState:
    """No triplets, and why; the last reply stays in the state."""
    count = state["attempts"]
    why = "no usable reply" if state.get("final", False) else f"unreadable reply, asked {count} times"
    return {"triplets": [], "reason": f"{why}: {state['failure']}"}


def normalise(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """The wordings of one English fact become one triplet, and what held before is left out; else all stays."""
    if not runtime.context.normalisation or state.get("language", "en") != "en":
        return {"past": []}
    kept, past = [], []
    for told in state["triplets"]:
        form = canonical.canonical(Triplet.model_validate(told))
        kept += [] if form is None else [form.model_dump()]
        past += [told] if form is None else []
    return {"triplets": kept, "past": past, "reason": state["reason"] if kept or not past else PAST_ALL}


def validate(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Keeps the triplets with an entity at both ends, or at the subject's, as the context says."""
    context = runtime.context
    if context.validation == "off":
        return {"invalid": []}
    valid = [_valid(told, context, state["sentences"]) for told in state["triplets"]]
    kept = [told for told, good in zip(state["triplets"], valid, strict=True) if good]
    dropped = [told for told, good in zip(state["triplets"], valid, strict=True) if not good]
    return {"triplets": kept, "invalid": dropped, "reason": state["reason"] if kept or not dropped else DROPPED_ALL}


def _valid(told: dict[str, Any], context: ExtractContext, sentences: list[str]) -> bool:
    """Whether the ends have entities; an object that names only the subject again ('her voice') has none."""
    ends = [told["subject"]]
    if context.validation == "both":
        ends.append(told["object"].replace(told["subject"], "").strip())
    return all(end and context.extractor.is_entity(end, sentences) for end in ends)


def deduplicate(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Of triplets that say the same, the first alone stays."""
    told, context = state["triplets"], runtime.context
    if not context.deduplication or len(told) < 2:
        return {"repeated": []}
    vectors = context.embedding.documents([Triplet.model_validate(one).text for one in told])
    first = _first(np.asarray(vectors @ vectors.T))
    return {
        "triplets": [told[place] for place in first],
        "repeated": [one for place, one in enumerate(told) if place not in first],
    }


def _first(cosines: Any) -> list[int]:
    """Places of those that are not above `SAME` to an earlier one that stays."""
    kept: list[int] = []
    for place in range(len(cosines)):
        if not kept or cosines[place, kept].max() <= SAME:
            kept.append(place)
    return kept


def build() -> CompiledStateGraph[ExtractState, ExtractContext, ExtractState, ExtractState]:
    """Segment -> resolve -> extract (again, a bounded number of times) -> normalise -> validate -> deduplicate."""
    graph = StateGraph(ExtractState, context_schema=ExtractContext)
    graph.add_node("segment", segment)
    graph.add_node("resolve", resolve)
    graph.add_node("extract", extract)
    graph.add_node("give_up", give_up)
    graph.add_node("normalise", normalise)
    graph.add_node("validate", validate)
    graph.add_node("deduplicate", deduplicate)
    graph.add_edge(START, "segment")
    graph.add_edge("segment", "resolve")
    graph.add_edge("resolve", "extract")
    graph.add_conditional_edges("extract", after_extract)
    graph.add_edge("give_up", END)
    graph.add_edge("normalise", "validate")
    graph.add_edge("validate", "deduplicate")
    graph.add_edge("deduplicate", END)
    return graph.compile(name="extract").with_config(recursion_limit=RECURSION_LIMIT)


class Extraction(FrozenModel):
    """What came of one document.

    `reason` says why there is no triplet, and is empty where there is one; `failed` whether that is a reply that could
    not be read, `reply`, kept as it came. `invalid` and `repeated` count what validation and deduplication took out.
    """

    triplets: tuple[Triplet, ...] = ()
    reason: str = ""
    failed: bool = False
    reply: str = ""
    invalid: int = 0
    repeated: int = 0
    usage: Usage = Usage()


def extract_document(text: str, context: ExtractContext, language: str = "en", app: Any = None) -> Extraction:
    """The triplets of one document, by the graph.

    Args:
        text: the document.
        context: what extracts, and how.
        language: of the document.
        app: the compiled graph, for those who call this often.

    Raises:
        BadSettings: the extractor does not know the language. And whatever asking a model raises.
    """
    final, _ = run_graph(app or build(), {"document": text, "language": language}, context)
    return Extraction(
        triplets=tuple(Triplet.model_validate(told) for told in final["triplets"]),
        reason="" if final["triplets"] else final["reason"],
        failed=bool(final["failure"]),
        reply=final["reply"],
        invalid=len(final.get("invalid", ())),
        repeated=len(final.get("repeated", ())),
        usage=Usage.model_validate(final["usage"]),
    )


def extract_edits(
    edits: Sequence[Edit],
    method: str = "rules",
    *,
    model: Any = None,
    embedding: Embedding | None = None,
    coreference: bool = True,
    validation: str = "both",
    deduplication: bool = True,
    normalisation: bool = True,
) -> list[Edit]:
    """The same edits, same ids, same texts, with the triplets that were read out of their texts.

    An edit from which nothing could be read has no triplets; `extract_document` says why.

    Args:
        edits: documents or events.
        method: `rules`, `spacy` or `llm`.
        model: a chat model for `llm`, a pipeline's name for `spacy`.
        embedding: tells repetitions; None is the memory's default.
        coreference: whether pronouns are replaced.
        validation: `both`, `subject` or `off`, see `ExtractContext`.
        deduplication: whether of like triplets the first alone stays.
        normalisation: whether the wordings of one fact become one triplet.

    Raises:
        BadSettings: unknown method or validation, or a language that the method does not know.
        MissingExtra: the method's package or model is not installed.
    """
    extractor = load_extractor(method, model)
    context = ExtractContext(
        extractor,
        embedding or load_embedding(),
        coreference,
        validation,
        deduplication,
        normalisation=normalisation,
    )
    app = build()
    found = (extract_document(edit.text, context, edit.language, app) for edit in edits)
    return [edit.model_copy(update={"triplets": one.triplets}) for edit, one in zip(edits, found, strict=True)]
