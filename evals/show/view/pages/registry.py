"""Registry of the pages of a run, in the order of the tabs; other packages register entry points.

The name of a page is its file name: the page `cases` is at `run/ID/cases.html`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emend.memory.errors import BadSettings, EmendError
from emend.memory.registry import Registry

if TYPE_CHECKING:
    from emend.evals.show.view.pages.common import PageRequest
    from emend.evals.show.view.scan import RunLocation
    from emend.evals.show.view.views import Page, ViewData


@dataclass(frozen=True)
class RunPage:
    """A page of a run.

    Args:
        tab: text of the page's tab.
        make: function of a request and the run that returns a `Page`, or only its data.
        template: Jinja template that renders the data if `make` returns only data; it extends
            `base.html`.
        live: True if the page needs a server; exports leave it out.
        jobs: names of the jobs whose runs have the page; empty for all runs.
    """

    tab: str
    make: "Callable[[PageRequest, RunLocation], Page | ViewData]"
    template: Path | None = None
    live: bool = False
    jobs: tuple[str, ...] = ()

    def is_of(self, job: str) -> bool:
        """Return True if runs of that job have the page."""
        return not self.jobs or job in self.jobs


PAGES: Registry[RunPage] = Registry(
    kind="page",
    group="emend.pages",
    beside=__file__,
    interfaces=(("tab", "make"),),
)


def find_page(name: str) -> RunPage | None:
    """Return the page of that name, or None if there is none.

    A registered object that cannot be imported or is not a `RunPage` becomes a page that raises
    the error when it is opened.
    """
    if name not in PAGES.names():
        return None
    try:
        page = PAGES.load(name)
    except EmendError as error:
        return _unusable(name, error)
    if not isinstance(page, RunPage):
        return _unusable(
            name,
            BadSettings(
                f"page '{name}' is not an emend.extend.RunPage: make one from a tab, a function "
                "and a template; see docs/how-to/extend.md."
            ),
        )
    return page


def _unusable(name: str, error: EmendError) -> RunPage:
    def fail(request: "PageRequest", location: "RunLocation") -> "Page":
        raise error

    return RunPage(tab=name, make=fail)


def run_pages(static: bool, job: str) -> dict[str, RunPage]:
    """Return the pages of a run of that job by name; without live pages if `static` is True."""
    pages: dict[str, RunPage] = {}
    for name in PAGES.names():
        page = find_page(name)
        if page is not None and page.is_of(job) and not (static and page.live):
            pages[name] = page
    return pages
