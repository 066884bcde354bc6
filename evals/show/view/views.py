"""Data of the viewer's pages, filled by `emend.evals.show.view.pages` and laid out by the templates.

Links are paths from the viewer's root without a leading slash, so that one scheme serves the server and the export.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

from emend.evals.case import Record
from emend.memory.edit import FrozenModel


class ViewData(SimpleNamespace):
    """Values of a template by name, as domain objects where those have what it shows.

    A template that asks for a name that is not there fails, so that tests find it.
    """


class Link(FrozenModel):
    """A text and the page that it leads to; `current` in the row of a run's pages for the one that is shown."""

    text: str
    href: str
    current: bool = False


class NamedValue(FrozenModel):
    """A name and a value, as text."""

    name: str
    value: str
    href: str = ""


class PageHead(FrozenModel):
    """Head of every page: its template's name, title, way back, the run's pages, and the command with its numbers.

    `root` leads from the page to the viewer's root; `refresh` is the number of seconds after which a page that waits
    for a computation is to be loaded again, or 0; `left_out` says what an export's page lacks.
    """

    name: str
    title: str
    root: str = ""
    static: bool = False
    crumbs: tuple[Link, ...] = ()
    tabs: tuple[Link, ...] = ()
    command: str = ""
    refresh: int = 0
    version: str = ""
    left_out: str = ""


class Status(FrozenModel):
    """How far the numbers of a page are: they are of `records` records."""

    state: Literal["ready", "computing", "failed"] = "ready"
    text: str = ""
    records: int = 0


@dataclass
class Page:
    """A page before it is rendered: what every page has, the view of this one, and the HTTP status."""

    head: PageHead
    data: Any
    status: int = 200


class AnswerView(FrozenModel):
    """An answer with its verdict and the score that decides it, on the page `case` of the case with that number."""

    record: Record
    verdict: str
    score: str
    number: int
    case: str
    anchor: str

    @property
    def href(self) -> str:
        """Link to the answer on the page of its case."""
        return f"{self.case}#{self.anchor}"


class CaseFilter(FrozenModel):
    """Filter and order of a run's cases; all that is given must hold; `after` is the number of cases before it."""

    editor: str = ""
    kind: str = ""
    tag: str = ""
    verdict: str = ""
    text: str = ""
    where: str = ""
    errors: bool = False
    sort: str = ""
    after: str = ""


State = Literal["running", "finished", "stopped"]
"""Of a run: a process works in it, every unit is finished or failed, or neither."""


class RunEntry(FrozenModel):
    """A run in short; counts of records and tokens are None until they are known, `cost` where prices are unknown."""

    id: str
    name: str
    folder: str
    href: str
    benchmark: str
    model: str
    editors: tuple[str, ...]
    mode: str
    started: str
    state: State
    units: int
    finished: int
    failed: int
    records: int | None = None
    unscored: int | None = None
    tokens: int | None = None
    cost: float | None = None


class CellView(FrozenModel):
    """An estimate: as text, and as numbers in the metric's unit.

    `mark` is `best` where the interval is apart from that of every other row, `tied` where it overlaps the best one's.
    """

    text: str
    interval: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unscored: int = 0
    as_wrong: float | None = None
    """The mean with probes that the model did not answer as wrong ones, where it differs; by it cells are ranked."""
    remarks: tuple[str, ...] = ()
    mark: Literal["best", "tied", ""] = ""
    href: str = ""
