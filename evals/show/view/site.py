"""Routing of the viewer: pages by path."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Self

from emend.evals.show.view.answers import CaseKey
from emend.evals.show.view.library import Library
from emend.evals.show.view.pages.case import case_page
from emend.evals.show.view.pages.common import PageRequest, Query, case_path
from emend.evals.show.view.pages.compare import beside_page, choice_page, compare_page, find_sides
from emend.evals.show.view.pages.registry import PAGES, find_page
from emend.evals.show.view.pages.run import about_page, runs_page
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import Page, RunEntry, ViewData
from emend.memory.errors import BadSettings, EmendError

_RUN = re.compile(r"run/([a-z0-9-]{1,60})/(?:([a-z0-9_-]{1,60})|case/(\d{1,4})-(\d{1,9}))\.html")
_COMPARE = re.compile(r"compare/([a-z0-9.~-]{1,500}?)(?:/(\d{1,4})-(\d{1,9}))?\.html")
GENERAL_PAGES = {"index.html": runs_page, "about.html": about_page, "compare.html": choice_page}
# HTTP status of a page whose run cannot be read: the folder is at fault, not the server.
UNREADABLE = 422


class PageMissing(Exception):
    """Raised if there is no page at a path."""


class Site:
    """The pages of the runs below some folders; a context manager.

    Args:
        folders: run folders, or folders that contain run folders.
        static: build pages for an export: complete, and without forms and links that need a server.

    Raises:
        MissingData: one of `folders` is not a folder.
    """

    def __init__(self, folders: Sequence[Path], static: bool = False) -> None:
        self.library, self.static = Library(folders, patient=static), static

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.library.close()

    def page(self, path: str, query: Query | None = None) -> Page:
        """Return the page at a path, such as `run/ID/cases.html`.

        If the run cannot be read, the page shows the error.

        Raises:
            PageMissing: there is no page at the path.
        """
        request = PageRequest(self.library, path, query or {}, self.static)
        try:
            page = self._find(request)
        except (EmendError, OSError) as error:  # the folder may be deleted meanwhile
            # a case of an unfinished run may have no answers yet
            if isinstance(error, BadSettings):
                status = 404
            else:
                status = UNREADABLE
            page = self.problem(path, "This page cannot be shown", str(error), status)
        if page is None:
            raise PageMissing(path)
        return page

    def problem(self, path: str, title: str, text: str, status: int) -> Page:
        """Return a page that shows a problem."""
        request = PageRequest(self.library, path, {}, self.static)
        return Page(request.head("problem", title), ViewData(text=text), status)

    def _find(self, request: PageRequest) -> Page | None:
        if make := GENERAL_PAGES.get(request.path):
            return make(request)
        if match := _RUN.fullmatch(request.path):
            location = self.library.scan.find(match[1])
            if location is None:
                return None
            if match[3]:
                return case_page(request, location, CaseKey(int(match[3]), int(match[4])))
            return _run_page(request, location, match[2])
        match = _COMPARE.fullmatch(request.path)
        sides = None
        if match:
            sides = find_sides(request, match[1].split("~"))
        if match is None or sides is None:
            return None
        if match[2]:
            return beside_page(request, sides, CaseKey(int(match[2]), int(match[3])))
        return compare_page(request, sides)

    def compare_path(self, keys: Sequence[str]) -> str | None:
        """Return the path of the comparison of these sides; None if they cannot be compared."""
        request = PageRequest(self.library, "compare.html", {}, self.static)
        if find_sides(request, keys):
            return f"compare/{'~'.join(keys)}.html"
        return None

    def case_paths(self, run: str, choice: str) -> list[str]:
        """Return the paths of the cases of a run that an export contains.

        Args:
            run: id of the run.
            choice: `all`, `wrong` (not all answers are right), `flipped` (right under one editor,
                wrong under another), or the size of a seeded random sample.

        Raises:
            BadSettings: the choice is invalid.
        """
        location = self.library.scan.find(run)
        answers = None
        if location:
            answers = self.library.answers(location)[0]
        if location is None or answers is None:
            return []
        return [
            case_path(location, *answers.key_of(int(at))) for at in answers.chosen_cases(choice)
        ]

    def compare_paths(self, run: str) -> list[str]:
        """Return the paths of the comparisons of all pairs of editors of a run."""
        location = self.library.scan.find(run)
        if location is None:
            return []
        numbers = range(len(location.manifest.config.editors))
        return [f"compare/{run}.{a}~{run}.{b}.html" for a, b in combinations(numbers, 2)]

    def runs(self) -> tuple[RunEntry, ...]:
        """Return the entries of all runs."""
        return tuple(self.library.entry(location) for location in self.library.scan.runs().values())


def _run_page(request: PageRequest, location: RunLocation, name: str) -> Page | None:
    """Return the page of a run by name; None if it does not exist, or not in exports."""
    page = find_page(name)
    if page is None or not page.is_of(location.manifest.job) or (request.static and page.live):
        return None
    with PAGES.plugin_errors(name):
        result = page.make(request, location)
    if isinstance(result, Page):
        return result
    return Page(request.head(name, f"{page.tab} of {location.name}", location), result)
