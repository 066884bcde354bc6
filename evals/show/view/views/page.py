"""Views that every page has: heads, links, facts and states."""

from dataclasses import dataclass
from typing import Any, Literal

from emend.memory.edit import FrozenModel


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


class Choice(FrozenModel):
    """A value of a filter; `count` is the number of answers that have it, where that is known."""

    value: str
    text: str
    count: int | None = None
    chosen: bool = False


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


class AboutView(FrozenModel):
    """Versions and folders."""

    versions: tuple[NamedValue, ...]
    folders: tuple[str, ...]


class ProblemView(FrozenModel):
    """Why there is no page."""

    text: str


@dataclass
class Page:
    """A page before it is rendered: what every page has, the view of this one, and the HTTP status."""

    head: PageHead
    data: Any
    status: int = 200
