"""The viewer's pages by path: what the server answers with, and what an export writes."""

import re
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Self

from emend.evals.show.view.answers import CaseKey
from emend.evals.show.view.library import Library
from emend.evals.show.view.pages.case import case_page
from emend.evals.show.view.pages.cases import cases_page
from emend.evals.show.view.pages.common import PageRequest, Query, case_path
from emend.evals.show.view.pages.compare import beside_page, choice_page, compare_page, find_sides
from emend.evals.show.view.pages.judges import judges_page
from emend.evals.show.view.pages.live import errors_page, live_page
from emend.evals.show.view.pages.retrieval import retrieval_page
from emend.evals.show.view.pages.run import about_page, run_page, runs_page
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import Page, ProblemView, RunEntry
from emend.memory.errors import BadSettings, EmendError

_RUN = re.compile(r"run/([a-z0-9-]{1,60})/(?:([a-z]+)|case/(\d{1,4})-(\d{1,9}))\.html")
_COMPARE = re.compile(r"compare/([a-z0-9.~-]{1,500}?)(?:/(\d{1,4})-(\d{1,9}))?\.html")
GENERAL_PAGES = {"index.html": runs_page, "about.html": about_page, "compare.html": choice_page}
RUN_PAGES: dict[str, Callable[[PageRequest, RunPlace], Page]] = {
    "index": run_page,
    "cases": cases_page,
    "retrieval": retrieval_page,
    "judges": judges_page,
    "errors": errors_page,
    "live": live_page,
}
UNREADABLE = 422
"""Status of a page of a run whose files cannot be read: the fault is the folder's, not the server's."""


class PageMissing(Exception):
    """Raised when there is no page at a path."""


class Site:
    """The pages of the runs below some folders; a context manager.

    Args:
        folders: run folders, or folders that hold some.
        static: pages for an export: complete, and without forms and links that need a server.

    Raises:
        MissingData: one is no folder.
    """

    def __init__(self, folders: Sequence[Path], static: bool = False) -> None:
        self.library, self.static = Library(folders, patient=static), static

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.library.__exit__(*error)

    def page(self, path: str, query: Query | None = None) -> Page:
        """The page at a path, such as `run/ID/cases.html`.

        A run that cannot be read gives a page that says so.

        Raises:
            PageMissing: there is none.
        """
        request = PageRequest(self.library, path, query or {}, self.static)
        try:
            page = self._find(request)
        except EmendError as error:
            # of a run that goes on: such a case has no answers yet
            status = 404 if isinstance(error, BadSettings) else UNREADABLE
            page = self.problem(path, "This cannot be shown", str(error), status)
        if page is None:
            raise PageMissing(path)
        return page

    def problem(self, path: str, title: str, text: str, status: int) -> Page:
        """A page that says why there is no other."""
        request = PageRequest(self.library, path, {}, self.static)
        return Page(request.head("problem", title), ProblemView(text=text), status)

    def _find(self, request: PageRequest) -> Page | None:
        if make := GENERAL_PAGES.get(request.path):
            return make(request)
        if match := _RUN.fullmatch(request.path):
            place = self.library.scan.find(match[1])
            if place is None or (self.static and match[2] == "live"):
                return None
            if match[3]:
                return case_page(request, place, CaseKey(int(match[3]), int(match[4])))
            return RUN_PAGES[match[2]](request, place) if match[2] in RUN_PAGES else None
        match = _COMPARE.fullmatch(request.path)
        sides = find_sides(request, match[1].split("~")) if match else None
        if match is None or sides is None:
            return None
        return (
            beside_page(request, sides, CaseKey(int(match[2]), int(match[3])))
            if match[2]
            else compare_page(request, sides)
        )

    def compare_path(self, keys: Sequence[str]) -> str | None:
        """Path of the comparison of these sides; None if they cannot be compared."""
        request = PageRequest(self.library, "compare.html", {}, self.static)
        return f"compare/{'~'.join(keys)}.html" if find_sides(request, keys) else None

    def case_paths(self, run: str, choice: str) -> list[str]:
        """Paths of the cases of a run that an export has.

        Args:
            run: its id.
            choice: `all`, `wrong` (not all answers right), `flipped` (right under one editor, wrong under another), or
                the number of cases of a seeded sample.

        Raises:
            BadSettings: no such choice.
        """
        place = self.library.scan.find(run)
        answers = self.library.answers(place)[0] if place else None
        if place is None or answers is None:
            return []
        return [case_path(place, *answers.key_of(int(at))) for at in answers.chosen_cases(choice)]

    def compare_paths(self, run: str) -> list[str]:
        """Paths of the comparisons of each two editors of a run."""
        place = self.library.scan.find(run)
        numbers = range(len(place.manifest.config.editors)) if place else ()
        return [f"compare/{run}.{a}~{run}.{b}.html" for a, b in combinations(numbers, 2)]

    def runs(self) -> tuple[RunEntry, ...]:
        """All runs in short."""
        return tuple(self.library.entry(place) for place in self.library.scan.runs().values())
