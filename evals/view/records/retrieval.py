"""Records of the page of retrieval."""

from emend.evals.view.records.case import HitView
from emend.evals.view.records.page import Choice, Status
from emend.evals.view.records.run import CellView, RunEntry
from emend.memory.edit import FrozenModel


class HitRate(FrozenModel):
    """Share of probes whose first retrieved entry is the right edit."""

    setting: str
    kind: str
    editor: str
    cell: CellView


class Miss(FrozenModel):
    """A probe whose first retrieved entry is of another edit, and what was retrieved."""

    editor: str
    setting: str
    number: int
    kind: str
    question: str
    edits: tuple[str, ...]
    hits: tuple[HitView, ...]
    answer: str | None
    verdict: str
    href: str


class RetrievalView(FrozenModel):
    """Hit rates of the editors that retrieve, and their misses."""

    run: RunEntry
    status: Status
    rows: tuple[HitRate, ...] = ()
    editors: tuple[Choice, ...] = ()
    misses: tuple[Miss, ...] = ()
    misses_total: int = 0
    next: str = ""
