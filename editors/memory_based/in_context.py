"""The upper bound of editing by prompt: the right fact is put before the probe, without retrieval."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from emend.editors.answerers import graph_answerer
from emend.editors.base import Answerer
from emend.editors.memory_based.unedited import Unedited
from emend.graphs.in_context import InContextContext
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.probe import Probe
from emend.memory.retrieval.exact import DECIMALS, best


@dataclass(frozen=True)
class InContextSettings:
    """Settings of the editor.

    Attributes:
        own_event: a probe out of scope that names its case's event, as ELKEN's do, is shown that event in every mode,
            as published; false shows it the nearest applied edit, as in use.
    """

    own_event: bool = True


class InContext(Unedited):
    """Shows each probe the edits that are relevant to it.

    A probe without a relevant edit is shown its own event (see `InContextSettings`), or else an applied edit, so that
    it meets an irrelevant fact as in use; where several are applied, the one whose words are nearest to the probe's.
    """

    name: ClassVar[str] = "in_context"
    schema: ClassVar[type[Any]] = InContextSettings
    graph: ClassVar[str] = "in_context"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Unedited` with the settings."""
        return super().fingerprint | {"settings": asdict(self.settings)}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Give an answerer over these edits; nothing is changed, so there is nothing to undo."""
        context = InContextContext(
            self.context.model, self.context.wording, FactSelector(edits, self.settings.own_event)
        )
        yield graph_answerer(self.app, context, self.context.model)


EVENT_TAG = "event"
"""Tag of a probe out of scope with the id of its case's edit."""


class FactSelector:
    """Selects the facts to show among the applied edits, for one probe after another."""

    def __init__(self, edits: Sequence[Edit], own_event: bool = True) -> None:
        self.edits = {edit.id: edit for edit in edits}
        self._own_event = own_event

    def __call__(self, probe: Probe) -> list[str]:
        """The texts of the edits that are relevant to the probe, else of its own event or the nearest edit."""
        event = (probe.tags.get(EVENT_TAG),) if self._own_event else ()
        relevant = [self.edits[name].text for name in probe.edit_ids or event if name in self.edits]
        return relevant or self._nearest(probe)

    def _nearest(self, probe: Probe) -> list[str]:
        applied = list(self.edits.values())
        if len(applied) <= 1:
            return [edit.text for edit in applied]
        embedding, vectors = self._embedded
        scores = vectors @ embedding.queries([probe.retrieval_query])[0]
        return [applied[place].text for place in best(np.round(scores, DECIMALS), 1)]

    @cached_property
    def _embedded(self) -> tuple[LexicalEmbedding, Any]:
        embedding = LexicalEmbedding()
        return embedding, embedding.documents([f"{e.subject} {e.text}" for e in self.edits.values()])
