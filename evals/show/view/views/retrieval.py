"""Views of the page of retrieval."""

from emend.evals.show.view.views.case import HitView
from emend.evals.show.view.views.cases import AnswerView
from emend.evals.show.view.views.page import Choice, Status
from emend.evals.show.view.views.run import CellView
from emend.memory.edit import FrozenModel


class HitRate(FrozenModel):
    """Share of probes whose first retrieved entry is the right edit."""

    setting: str
    kind: str
    editor: str
    cell: CellView


class Miss(FrozenModel):
    """An answer whose first retrieved entry is of another edit than the case's, and what was retrieved."""

    answer: AnswerView
    edits: tuple[str, ...]
    hits: tuple[HitView, ...]


class RetrievalView(FrozenModel):
    """Hit rates of the editors that retrieve, and their misses."""

    status: Status
    rows: tuple[HitRate, ...] = ()
    editors: tuple[Choice, ...] = ()
    misses: tuple[Miss, ...] = ()
    misses_total: int = 0
    next: str = ""
