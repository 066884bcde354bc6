"""Data classes of the viewer's pages, built by `emend.evals.show.view.pages`, read by templates.

Links are paths from the viewer's root without a leading slash, so that they work for the server
and for exports.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

from emend.evals.case import Record
from emend.evals.results.aggregate.mark_names import Mark
from emend.memory.edit import FrozenModel


class ViewData(SimpleNamespace):
    """Variables of a template, often domain objects.

    A template that reads a missing variable fails, so that tests find the mistake.
    """


class Link(FrozenModel):
    """A link with its text.

    `current` is True for the tab of the page that is shown.
    """

    text: str
    href: str
    current: bool = False


class NamedValue(FrozenModel):
    """A name and a value as text, with an optional link."""

    name: str
    value: str
    href: str = ""


class PageHead(FrozenModel):
    """Head of a page.

    `name` is the name of the template, `root` the relative path to the viewer's root, and `command`
    the `emend` command that prints the same numbers. `refresh` is the number of seconds after which
    a page that waits for a computation is reloaded, or 0. `left_out` describes what an exported
    page leaves out.
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
    """Status of the numbers of a page, which are computed from `records` records."""

    state: Literal["ready", "computing", "failed"] = "ready"
    text: str = ""
    records: int = 0


@dataclass
class Page:
    """A page before rendering: the head, the data of its template, and the HTTP status."""

    head: PageHead
    data: Any
    status: int = 200


class AnswerView(FrozenModel):
    """An answer with its verdict, the deciding score, and its location on the page of its case."""

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
    """Filter and sort order of the cases of a run.

    All given conditions must hold; `after` is the number of cases on the previous pages.
    """

    editor: str = ""
    kind: str = ""
    tag: str = ""
    verdict: str = ""
    text: str = ""
    where: str = ""
    errors: bool = False
    sort: str = ""
    after: str = ""


# State of a run; "finished" if all units are finished or failed, "stopped" if units are left and no
# process works on them.
State = Literal["running", "finished", "stopped"]


class RunEntry(FrozenModel):
    """Summary of a run.

    `records`, `unscored` and `tokens` are None until they are counted; `cost` is None if prices are
    unknown.
    """

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
    """An estimate as text and as numbers in the metric's unit.

    `mark` is `best`, or `highest` if the difference to the next best is not significant, as in the
    report's tables.
    """

    text: str
    interval: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unscored: int = 0
    as_wrong: float | None = None
    """The mean with unanswered probes counted as wrong, if it differs from `mean`; cells are ranked
    by it."""
    remarks: tuple[str, ...] = ()
    mark: Mark = ""
    href: str = ""
