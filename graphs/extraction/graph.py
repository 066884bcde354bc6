"""Graph from a document to triplets: segment, resolve coreference, extract, normalise, validate,
deduplicate.

This is the extract-then-edit pipeline of "DocTER: Evaluating Document-based Knowledge Editing",
section 5. After an unparsable reply the model is asked again, up to a maximum number of attempts;
then the document has no triplets, but a reason and the last reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.graphs.execution import Graph, run_graph
from emend.graphs.extraction.base import Extractor, rules_digest
from emend.memory.edit import Edit, FrozenModel, Triplet, content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadSettings, ModelReplyError, ReplyCutOff, ReplyRefused
from emend.memory.probe import Usage
from emend.memory.registry import nearest
from emend.memory.relations import canonical

# Six nodes, plus the retries of `extract`.
RECURSION_LIMIT = 24
ATTEMPTS_LIMIT = 10
# Cosine above which two triplets are repetitions (DocTER, section 5).
SAME = 0.9
VALIDATIONS = ("both", "subject", "off")
NOTHING = "no triplet was found in the document"
DROPPED_ALL = "no triplet was left: none of those found has an entity at both ends"
PAST_ALL = "no triplet was left: all that were found tell what held before"


class ExtractState(TypedDict, total=False):
    """State with `document` and `language` as input; triplets are dicts of `Triplet`.

    `final` means that asking again after a failure would not help.
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
    usage: Annotated[Usage, Usage.plus]


@dataclass(frozen=True)
class ExtractContext:
    """Context with the extractor, the embedding that finds repeated triplets, and the enabled steps
    of the pipeline.

    `validation` is `both` (subject and object must have an entity, DocTER's rule), `subject` (only
    the subject must) or `off`; `attempts` is the maximum number of replies per document.

    Raises:
        BadSettings: unknown validation, or an invalid number of attempts.
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
            raise BadSettings(
                f"unknown validation '{self.validation}': "
                f"{nearest(self.validation, list(VALIDATIONS))}"
            )
        if not 1 <= self.attempts <= ATTEMPTS_LIMIT:
            raise BadSettings(
                f"attempts={self.attempts}: give a number from 1 to {ATTEMPTS_LIMIT}."
            )

    @property
    def fingerprint(self) -> str:
        """Fingerprint of twelve hex digits, which changes whenever the output may change."""
        form = rules_digest() if self.normalisation else ""
        parts = (
            self.coreference,
            self.validation,
            self.deduplication,
            self.embedding.identity,
            self.attempts,
            form,
        )
        return content_id(self.extractor.fingerprint, *parts)[:12]


C = TypeVar("C", bound=ExtractContext)


def segment(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Split the document into sentences, unless the extractor reads the whole document."""
    extractor = runtime.context.extractor
    whole = [state["document"]] if state["document"].strip() else []
    return {"sentences": whole if extractor.whole else extractor.segment(state["document"])}


def resolve(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Resolve coreference if it is enabled, unless the extractor reads the whole document."""
    extractor, sentences = runtime.context.extractor, state["sentences"]
    resolved = runtime.context.coreference and not extractor.whole
    return {"sentences": extractor.resolve(sentences) if resolved else sentences}


def extract(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Extract the triplets; an unparsable reply is recorded as a failure."""
    tried, language = state.get("attempts", 0) + 1, state.get("language", "en")
    try:
        output = runtime.context.extractor.extract(
            state["sentences"], language, state.get("failure", "")
        )
    except ModelReplyError as error:
        final = isinstance(error, (ReplyRefused, ReplyCutOff))  # a retry would not help
        failed: ExtractState = {
            "attempts": tried,
            "failure": str(error),
            "reply": error.reply,
            "final": final,
        }
        return {**failed, "usage": error.usage}
    triplets = [triplet.model_dump() for triplet in output.triplets]
    update: ExtractState = {"attempts": tried, "failure": "", "reply": "", "triplets": triplets}
    return {**update, "reason": "" if triplets else NOTHING, "usage": output.usage}


def after_extract(
    state: ExtractState, runtime: Runtime[C]
) -> Literal["extract", "give_up", "normalise"]:
    """Retry after a failure while attempts are left."""
    if not state["failure"]:
        return "normalise"
    again = state["attempts"] < runtime.context.attempts and not state.get("final", False)
    return "extract" if again else "give_up"


def give_up(state: ExtractState) -> ExtractState:
    """Set the reason why there are no triplets; the state keeps the last reply."""
    count = state["attempts"]
    why = (
        "no usable reply"
        if state.get("final", False)
        else (f"unreadable reply, asked {count} times")
    )
    return {"triplets": [], "reason": f"{why}: {state['failure']}"}


def normalise(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Normalise English triplets, and drop triplets about the past; triplets in other languages are
    unchanged.
    """
    if not runtime.context.normalisation or state.get("language", "en") != "en":
        return {"past": []}
    current, past = [], []
    for triplet in state["triplets"]:
        form = canonical.canonical(Triplet.model_validate(triplet))
        current += [] if form is None else [form.model_dump()]
        past += [triplet] if form is None else []
    return {
        "triplets": current,
        "past": past,
        "reason": state["reason"] if current or not past else PAST_ALL,
    }


def validate(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Keep the triplets whose subject, or whose subject and object, are entities, depending on the
    context.
    """
    context = runtime.context
    if context.validation == "off":
        return {"invalid": []}
    valid: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    for triplet in state["triplets"]:
        (valid if _is_valid(triplet, context, state["sentences"]) else invalid).append(triplet)
    return {
        "triplets": valid,
        "invalid": invalid,
        "reason": state["reason"] if valid or not invalid else DROPPED_ALL,
    }


def _is_valid(triplet: dict[str, Any], context: ExtractContext, sentences: list[str]) -> bool:
    """Return whether the subject and, for `both`, the object contain an entity.

    The subject's name within the object does not count ('her voice', with the name for 'her').
    """
    ends = [triplet["subject"]]
    if context.validation == "both":
        ends.append(triplet["object"].replace(triplet["subject"], "").strip())
    return all(end and context.extractor.is_entity(end, sentences) for end in ends)


def deduplicate(state: ExtractState, runtime: Runtime[C]) -> ExtractState:
    """Keep the first of each group of repeated triplets."""
    triplets, context = state["triplets"], runtime.context
    if not context.deduplication or len(triplets) < 2:
        return {"repeated": []}
    vectors = context.embedding.documents(
        [Triplet.model_validate(triplet).text for triplet in triplets]
    )
    first = _first(np.asarray(vectors @ vectors.T))
    return {
        "triplets": [triplets[place] for place in first],
        "repeated": [triplet for place, triplet in enumerate(triplets) if place not in first],
    }


def _first(cosines: Any) -> list[int]:
    """Return the indices of the triplets that do not repeat an earlier kept one."""
    first: list[int] = []
    for place in range(len(cosines)):
        if not first or cosines[place, first].max() <= SAME:
            first.append(place)
    return first


def build() -> Graph:
    """Segment -> resolve -> extract (with retries) -> normalise -> validate -> deduplicate."""
    graph = StateGraph(ExtractState, context_schema=ExtractContext)
    graph.add_node("segment", segment)
    graph.add_node("resolve", resolve)
    graph.add_node("extract", extract)
    graph.add_edge("segment", "resolve")
    graph.add_edge("resolve", "extract")
    graph.add_node("give_up", give_up)
    graph.add_node("normalise", normalise)
    graph.add_node("validate", validate)
    graph.add_node("deduplicate", deduplicate)
    graph.add_edge("normalise", "validate")
    graph.add_edge("validate", "deduplicate")
    graph.add_edge(START, "segment")
    graph.add_conditional_edges("extract", after_extract)
    graph.add_edge("give_up", END)
    graph.add_edge("deduplicate", END)
    return graph.compile(name="extract").with_config(recursion_limit=RECURSION_LIMIT)


class Extraction(FrozenModel):
    """Result of the extraction from one document.

    `reason` says why there are no triplets, and is empty if there are some; `failed` is true if the
    cause is an unparsable `reply`. `invalid` and `repeated` are the numbers of triplets removed by
    validation and deduplication.
    """

    triplets: tuple[Triplet, ...] = ()
    reason: str = ""
    failed: bool = False
    reply: str = ""
    invalid: int = 0
    repeated: int = 0
    usage: Usage = Usage()


def extract_document(
    text: str, context: ExtractContext, language: str = "en", app: Any = None
) -> Extraction:
    """Extract the triplets of one document with the graph.

    Args:
        text: the document.
        context: the extractor and settings.
        language: language of the document.
        app: compiled graph to reuse; built if None.

    Raises:
        BadSettings: the extractor does not support the language.
        ModelError: the model could not be asked.
    """
    final, _ = run_graph(app or build(), {"document": text, "language": language}, context)
    return Extraction(
        triplets=tuple(Triplet.model_validate(triplet) for triplet in final["triplets"]),
        reason="" if final["triplets"] else final["reason"],
        failed=bool(final["failure"]),
        reply=final["reply"],
        invalid=len(final.get("invalid", ())),
        repeated=len(final.get("repeated", ())),
        usage=final["usage"],
    )


def extract_edits(edits: Sequence[Edit], context: ExtractContext) -> list[Edit]:
    """Return copies of the edits with the triplets extracted from their texts.

    To learn why an edit has no triplets, call `extract_document` on its text.

    Raises:
        BadSettings: the extractor does not support a language.
    """
    app = build()
    triplets = (extract_document(edit.text, context, edit.language, app).triplets for edit in edits)
    return [
        edit.model_copy(update={"triplets": ts}) for edit, ts in zip(edits, triplets, strict=True)
    ]
