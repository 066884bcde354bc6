"""Emend's memory of edits as a memory system: facts that are read out of the turns, the newest of each current."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.editors.hyperparameters import build_settings
from emend.evals.stream.gold import StateFact
from emend.evals.stream.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.stream.turn import FactClaim, StreamQuestion, Turn
from emend.evals.stream.wordings import read_turn
from emend.graphs.extraction.load import load_extractor
from emend.memory.edit import Edit, Triplet, content_id
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Retriever, search
from emend.memory.retrieval.compose import load_retriever
from emend.memory.store.chroma import ChromaMemory

ReadClaims = Callable[[Turn], Sequence[FactClaim]]


@dataclass(frozen=True)
class MemorySettings:
    """Settings of the memory.

    Attributes:
        extractor: reads facts out of turns: `exact` those of generated streams, `rules` English by rules, `llm` by the
            model under test.
        retriever: searches the memory; see: emend list retrievers.
        k: number of texts that are recalled at most, before the budget.
    """

    extractor: Literal["exact", "rules", "llm"] = "exact"
    retriever: str = "default"
    k: Annotated[int, Field(ge=1)] = 20


class Memory:
    """Emend's memory, one for each user: a fact takes the place of an older one with its subject and relation.

    Turns in which no fact is read are kept as texts, and so is everything that a document says.
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
        """Store the facts of the turn, or its text."""
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
        edit_id, time = f"{turn.id}-{number}", claim.since or turn.date
        history = self._edits_about(memory, claim.subject, claim.relation)
        if any(edit.id == edit_id for edit in history):
            return  # a correction that is observed again would correct a further edit
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
        """The current facts and texts nearest to the question, of the user who asks."""
        if question.user not in self._memories and not self._folder_of(question.user, create=False):
            return ()
        memory = self._memory_of(question.user)
        retriever = self._retrievers.get(question.user)
        if retriever is None:
            retriever = self._retrievers[question.user] = self._make_retriever(memory.view())
        hits = search(retriever, question.text, self.settings.k)
        return [ContextItem(hit.entry.text, _turn_of(hit.entry.edit_id), hit.entry.time or "") for hit in hits]

    def state(self) -> set[StateFact]:
        """The current facts of all users."""
        return {
            StateFact(user, triplet.subject, triplet.relation, triplet.object)
            for user, memory in self._memories.items()
            for edit in memory.edits(current=True)
            for triplet in edit.triplets
        }

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """All objects that a fact had, oldest first."""
        return [edit.target_new for edit in self._edits_about(self._memory_of(user), subject, relation)]

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Withdraw all edits of a fact."""
        self._retrievers.pop(user, None)
        self._withdraw(self._memory_of(user), subject, relation)

    def size(self) -> StoreSize:
        """Number of edits, and the bytes of the folder."""
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
        """The folder of a user's memory; None without one, and if it is not there and is not to be made."""
        if self._context.folder is None:
            return None
        folder = self._context.folder / content_id("user", user)
        return folder if create or folder.exists() else None


def claims_reader(extractor: str, model: Any) -> ReadClaims:
    """The function that reads facts out of a turn.

    Raises:
        EmendError: see `load_extractor`.
    """
    if extractor == "exact":
        return lambda turn: [each for each in read_turn(turn.text) if isinstance(each, FactClaim)]
    return partial(_extracted, load_extractor(extractor, model))


_DELETION = re.compile(r"\b(?:forget|delete|erase)\b", re.IGNORECASE)


def _extracted(extractor: Any, turn: Turn) -> list[FactClaim]:
    """Facts of a turn by an extractor; a turn that asks to forget something states none."""
    if _DELETION.search(turn.text) or not turn.text.strip():
        return []
    return list(_claims(extractor.extract(extractor.segment(turn.text), "en").triplets))


def _claims(triplets: Sequence[Triplet]) -> Iterator[FactClaim]:
    for triplet in triplets:
        yield FactClaim(subject=triplet.subject, relation=triplet.relation, object=triplet.object)


def _turn_of(edit_id: str) -> str:
    """The turn of an edit: its id without the number of the fact."""
    return edit_id.partition("-")[0]
