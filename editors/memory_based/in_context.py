"""The upper bound of editing by prompt: the right fact is put before the probe, without retrieval."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


class InContext(Unedited):
    """Shows each probe the edits that are relevant to it.

    A probe without a relevant edit is shown the applied one, so that it meets an irrelevant fact as in use; where
    several are applied, the one whose words are nearest to the probe's.
    """

    name: ClassVar[str] = "in_context"
    graph: ClassVar[str] = "in_context"

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Give an answerer over these edits; nothing is changed, so there is nothing to undo."""
        context = InContextContext(self.context.model, self.context.wording, FactSelector(edits))
        yield graph_answerer(self.app, context, self.context.model)


class FactSelector:
    """Selects the facts to show among the applied edits, for one probe after another."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = {edit.id: edit for edit in edits}

    def __call__(self, probe: Probe) -> list[str]:
        """The texts of the edits that are relevant to the probe, else of the nearest one."""
        relevant = [self.edits[name].text for name in probe.edit_ids if name in self.edits]
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
