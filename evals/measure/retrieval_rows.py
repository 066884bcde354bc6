"""Results of `emend retrieval`: a row per strategy and kind of probe, and calibrated thresholds."""

from pydantic import Field

from emend.memory.edit import FrozenModel
from emend.memory.retrieval.threshold import Sign


class RetrievalRow(FrozenModel):
    """Results of a strategy on one kind of probe; proportions from 0 to 1.

    A query hits at k if one of the first k entries belongs to a relevant edit. For a probe out of scope nothing should
    be retrieved: its row's `hit@1`, `hit@5` and `mrr` are all the proportion for which nothing was, and `false_hits` is
    the rest. `low` and `high` bound `hit@1` with 95 % confidence (bootstrap over cases). `ms` is the mean time of a
    search in milliseconds, without the time of the embedding.
    """

    strategy: str
    kind: str
    n: int
    hit_at_1: float = Field(serialization_alias="hit@1")
    hit_at_5: float = Field(serialization_alias="hit@5")
    mrr: float
    low: float | None = None
    high: float | None = None
    ms: float
    in_scope: bool = Field(default=True, exclude=True)

    @property
    def false_hits(self) -> float | None:
        """Proportion of probes out of scope for which anything was retrieved; None in scope."""
        return None if self.in_scope else 1 - self.hit_at_1


class ThresholdRow(FrozenModel):
    """Effect of a calibrated threshold on one kind of probe out of scope.

    `least` is the threshold on the strategy's `score` or its `lead`, found on `right` correct first hits; `false_hits`
    is the proportion of the n probes of `kind` that still retrieve something.
    """

    strategy: str
    by: Sign
    least: float
    right: int
    kind: str
    n: int
    false_hits: float
    low: float | None
    high: float | None


class RetrievalReport(FrozenModel):
    """Rows by kind and strategy, thresholds, and the contents of the memory that was searched."""

    benchmark: str
    setting: str
    embedding: str
    edits: int
    entries: int
    skipped: int
    """Probes in scope that do not name their relevant edit."""
    rows: tuple[RetrievalRow, ...]
    thresholds: tuple[ThresholdRow, ...] = ()
    keep: float = 0.95
    """Proportion of the correct first hits that the thresholds keep."""
