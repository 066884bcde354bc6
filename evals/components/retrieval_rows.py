"""What `emend retrieval` tells: a row per strategy and kind of probe, and thresholds."""

from pydantic import Field

from emend.memory.edit import FrozenModel
from emend.memory.retrieval.threshold import Sign


class RetrievalRow(FrozenModel):
    """One strategy on one kind of probe; shares lie in 0..1.

    A query hits at k if one of the first k entries is of an edit that bears on it. For a probe out of scope nothing is
    the right thing to find: its row's `hit@1`, `hit@5` and `mrr` are all the share for which nothing was returned, and
    `false_hits` is the rest. `low` and `high` bound `hit@1` with 95 % confidence (bootstrap over cases). `ms` is the
    mean time of a search in milliseconds, without the time that the embedding took.
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
        """The share of probes out of scope for which anything was returned; None in scope."""
        return None if self.in_scope else 1 - self.hit_at_1


class ThresholdRow(FrozenModel):
    """What a threshold that keeps a share of the right first hits does to one kind of probe out of scope.

    `least` is the threshold by the strategy's `score` or its `lead`, found on `right` right first hits; `false_hits`
    is the share of the n probes of `kind` that are given something nevertheless.
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
    """What was measured where: the rows, by kind and then strategy, and what the memory held."""

    benchmark: str
    setting: str
    embedding: str
    edits: int
    entries: int
    skipped: int
    """Probes in scope that do not say which edit bears on them."""
    rows: tuple[RetrievalRow, ...]
    thresholds: tuple[ThresholdRow, ...] = ()
    keep: float = 0.95
    """Share of the right first hits that the thresholds keep."""
