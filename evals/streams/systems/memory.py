"""Emend's memory of edits as a memory system, with facts extracted from the turns.

The newest fact about a subject and relation is the current one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.editors.hyperparameters import build_settings
from emend.evals.streams.gold import StateFact
from emend.evals.streams.sentences.wordings import read_turn
from emend.evals.streams.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.streams.turn import FactClaim, StreamQuestion, Turn
from emend.graphs.extraction.load import load_extractor
from emend.memory.edit import Edit, Triplet, content_id
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Retriever, search
from emend.memory.retrieval.compose import load_retriever
from emend.memory.store.chroma import ChromaMemory

# Separator between the turn's id and the number of the fact; ids of published turns have hyphens.
FACT = "#"
ReadClaims = Callable[[Turn], Sequence[FactClaim]]


@dataclass(frozen=True)
class MemorySettings:
    """Settings of the memory of edits.

    Attributes:
        extractor: extracts facts from turns: `exact` parses the sentences of generated streams,
            `rules` uses rules for English, `llm` the model under test.
        retriever: strategy that searches the memory; see: emend list retrievers.
        k: maximum number of recalled texts, before the budget.
    """

    extractor: Literal["exact", "rules", "llm"] = "exact"
    retriever: str = "default"
    k: Annotated[int, Field(ge=1)] = 20


class Memory:
    """Emend's memory of edits, one for each user.

    A fact supersedes older ones with the same subject and relation. Turns without an extracted
    fact, and all documents, are stored as texts.
    """

    persistent: ClassVar[bool] = True
    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        self.settings: MemorySettings = build_settings(MemorySettings, context.settings, "memory")
        self._context = context
        self._embedding = context.embedding or LexicalEmbedding()
        self._claims = claims_reader(self.settings.extractor, context.model)
        self._make_retriever = load_retriever(self.settings.retriever)
        self._memories: dict[str, ChromaMemory] = {}
        self._retrievers: dict[str, Retriever] = {}

    def observe(self, turn: Turn) -> None:
        """Store the facts of the turn, or its text if it has none."""
        memory = self._memory_of(turn.user)
        self._retrievers.pop(turn.user, None)
        claims = [] if turn.role == "document" else self._claims(turn)
        if not claims:
            text = item_of(turn).text
            memory.add([Edit(id=turn.id, form="document", text=text, time=turn.date or None)])
        for number, claim in enumerate(claims):
            if claim.object is None:
                self._withdraw(memory, claim.subject, claim.relation)
            else:
                self._store(memory, turn, number, claim)

    def _store(self, memory: ChromaMemory, turn: Turn, number: int, claim: FactClaim) -> None:
        edit_id, time = f"{turn.id}{FACT}{number}", claim.since or turn.date
        history = self._edits_about(memory, claim.subject, claim.relation)
        if any(edit.id == edit_id for edit in history):
            return  # otherwise a repeated correction would correct another edit
        if claim.corrects and history:
            time = history[-1].time or time
            memory.withdraw([history[-1].id])
        text = f"{turn.user}: {turn.text}"
        triplet = Triplet(subject=claim.subject, relation=claim.relation, object=claim.object or "")
        memory.add(
            [
                Edit(
                    id=edit_id,
                    form="triplet",
                    text=text,
                    subject=claim.subject,
                    prompt=f"The {claim.relation} of {{}} is",
                    target_new=triplet.object,
                    triplets=(triplet,),
                    time=time or None,
                )
            ]
        )

    def _withdraw(self, memory: ChromaMemory, subject: str, relation: str) -> None:
        if stored := self._edits_about(memory, subject, relation):
            memory.withdraw([edit.id for edit in stored])

    def _edits_about(self, memory: ChromaMemory, subject: str, relation: str) -> list[Edit]:
        return [version.edit for version in memory.history(subject, relation).versions]

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the user's current facts and texts that are nearest to the question."""
        if question.user not in self._memories and not self._folder_of(question.user, create=False):
            return ()
        memory = self._memory_of(question.user)
        retriever = self._retrievers.get(question.user)
        if retriever is None:
            retriever = self._retrievers[question.user] = self._make_retriever(memory.view())
        hits = search(retriever, question.text, self.settings.k)
        return [
            ContextItem(hit.entry.text, _turn_of(hit.entry.edit_id), hit.entry.time or "")
            for hit in hits
        ]

    def state(self) -> set[StateFact]:
        """Return the current facts of all users."""
        return {
            StateFact(user, triplet.subject, triplet.relation, triplet.object)
            for user, memory in self._memories.items()
            for edit in memory.edits(current=True)
            for triplet in edit.triplets
        }

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """Return all objects that a fact had, oldest first."""
        return [
            edit.target_new for edit in self._edits_about(self._memory_of(user), subject, relation)
        ]

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Withdraw all edits about a fact."""
        self._retrievers.pop(user, None)
        self._withdraw(self._memory_of(user), subject, relation)

    def size(self) -> StoreSize:
        """Return the number of edits and the size of the folder in bytes."""
        folder = self._context.folder
        files = [path for path in folder.rglob("*") if path.is_file()] if folder else []
        items = sum(memory.count() for memory in self._memories.values())
        return StoreSize(items, sum(path.stat().st_size for path in files))

    def close(self) -> None:
        """Close the memories."""
        for memory in self._memories.values():
            memory.close()
        self._memories.clear()

    def _memory_of(self, user: str) -> ChromaMemory:
        if user not in self._memories:
            place = self._folder_of(user, create=True)
            self._memories[user] = ChromaMemory(place, self._embedding, superseding="time")
        return self._memories[user]

    def _folder_of(self, user: str, *, create: bool) -> Path | None:
        """Return the folder of a user's memory, or None.

        None if the system has no folder, or if the user's does not exist and `create` is False.
        """
        if self._context.folder is None:
            return None
        folder = self._context.folder / content_id("user", user)
        return folder if create or folder.exists() else None


def claims_reader(extractor: str, model: Any) -> ReadClaims:
    """Return the function that extracts facts from a turn.

    Raises:
        EmendError: see `load_extractor`.
    """
    if extractor == "exact":
        return lambda turn: [each for each in read_turn(turn.text) if isinstance(each, FactClaim)]
    reads_by_model = extractor == "llm"
    return partial(_extracted, load_extractor(extractor, model if reads_by_model else None))


_DELETION = re.compile(r"\b(?:forget|delete|erase)\b", re.IGNORECASE)


def _extracted(extractor: Any, turn: Turn) -> list[FactClaim]:
    """Return the facts extracted from a turn; none if it asks to forget something."""
    if _DELETION.search(turn.text) or not turn.text.strip():
        return []
    return list(_claims(extractor.extract(extractor.segment(turn.text), "en").triplets))


def _claims(triplets: Sequence[Triplet]) -> Iterator[FactClaim]:
    for triplet in triplets:
        yield FactClaim(subject=triplet.subject, relation=triplet.relation, object=triplet.object)


def _turn_of(edit_id: str) -> str:
    """Return the id of an edit's turn: the edit's id without the number of the fact."""
    return edit_id.partition(FACT)[0]
