"""Upper bound of in-context editing: the right fact is put before the probe, without retrieval."""

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
        own_event: in every mode, show an out-of-scope probe the event of its case if it names one,
            as published for ELKEN; False shows it the nearest applied edit, as a retriever would.
    """

    own_event: bool = True


class InContext(Unedited):
    """In-context editor that shows each probe the edits relevant to it.

    A probe without a relevant edit is shown its own event (see `InContextSettings`) or else the
    most similar applied edit by words, so that it meets an irrelevant fact as in practice.
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
        """Yield an answerer over these edits; the model is not changed."""
        context = InContextContext(
            self.context.model, self.context.wording, FactSelector(edits, self.settings.own_event)
        )
        yield graph_answerer(self.app, context, self.context.model)


class FactSelector:
    """Selector of the applied edits that a probe is shown."""

    def __init__(self, edits: Sequence[Edit], own_event: bool = True) -> None:
        self.edits = {edit.id: edit for edit in edits}
        self._own_event = own_event

    def __call__(self, probe: Probe) -> list[str]:
        """Return the texts of relevant edits, of the probe's own event, or of the nearest edit."""
        event = (probe.event_id,) if self._own_event else ()
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
        return embedding, embedding.documents(
            [f"{e.subject} {e.text}" for e in self.edits.values()]
        )
