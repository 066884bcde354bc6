"""Helpers shared by several pages: heads, links, and table cells of estimates."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import urlencode

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.show.report.layout import interval, number
from emend.evals.show.report.metrics import remarks
from emend.evals.show.report.secondary import cost_text
from emend.evals.show.view.library import Library, command
from emend.evals.show.view.pages.registry import run_pages
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import CellView, Link, NamedValue, PageHead
from emend.memory.distribution import installed_version

# Seconds after which a page that waits for numbers is reloaded.
REFRESH = 2
PERCENT = 100.0
# Absolute value from which a number is shown without decimals.
LARGE = 1000.0
Query = Mapping[str, Sequence[str]]


class PageRequest(NamedTuple):
    """Request of a page: the runs, the path and the query.

    `static` is True for an export, whose links have no query.
    """

    library: Library
    path: str
    query: Query
    static: bool = False

    def value(self, name: str) -> str:
        """Return the first value of a query parameter, or an empty text."""
        return next(iter(self.query.get(name, ())), "")

    def offset(self, name: str) -> int:
        """Return a query parameter as the start index of a long list; 0 if absent or invalid."""
        text = self.value(name)
        if text.isdecimal() and len(text) < 12:
            return int(text)
        return 0

    def link(self, path: str, **query: str) -> str:
        """Return a path with its query; the query is left out on static pages."""
        parameters = {name: value for name, value in query.items() if value}
        if parameters and not self.static:
            return f"{path}?{urlencode(parameters)}"
        return path

    def head(
        self,
        name: str,
        title: str,
        location: RunLocation | None = None,
        crumbs: Sequence[Link] = (),
        words: Sequence[str] = (),
        waiting: bool = False,
        tab: str = "",
    ) -> PageHead:
        """Build the head of a page.

        Args:
            name: name of the page's template.
            title: title of the page.
            location: the run that the page shows.
            crumbs: breadcrumb links between the run and the page.
            words: arguments of the `emend` command that prints the same numbers.
            waiting: True if the page waits for numbers that are being computed.
            tab: name of the tab to highlight; by default the file name of the page.
        """
        before: tuple[Link, ...] = ()
        tabs: tuple[Link, ...] = ()
        if name != "runs":
            before = (Link(text="Runs", href="index.html"),)
        if location is not None:
            before = (*before, Link(text=location.name, href=run_path(location)))
            tabs = self._tabs(location, tab or PurePosixPath(self.path).stem)
        refresh = 0
        if waiting and not self.static:
            refresh = REFRESH
        text = ""
        if words:
            text = command(*words)
        return PageHead(
            name=name,
            title=title,
            root="../" * self.path.count("/"),
            static=self.static,
            crumbs=(*before, *crumbs),
            tabs=tabs,
            command=text,
            version=installed_version(),
            refresh=refresh,
        )

    def _tabs(self, location: RunLocation, current: str) -> tuple[Link, ...]:
        return tuple(
            Link(text=page.tab, href=run_path(location, f"{name}.html"), current=name == current)
            for name, page in run_pages(self.static, location.manifest.job).items()
        )


def run_path(location: RunLocation, file: str = "index.html") -> str:
    """Return the path of a page of a run."""
    return f"run/{location.id}/{file}"


def case_path(location: RunLocation, setting: int, case: int) -> str:
    """Return the path of the page of a case."""
    return run_path(location, f"case/{setting}-{case}.html")


def facts(values: Mapping[str, object]) -> tuple[NamedValue, ...]:
    """Format names and values as text."""
    return tuple(NamedValue(name=str(name), value=text_of(value)) for name, value in values.items())


def text_of(value: object) -> str:
    """Format a value: floats with 4 digits, lists with commas, mappings as `name=value`."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text_of(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text_of, value))
    if value is None:
        return ""
    return str(value)


def cell(
    value: Estimate | MetricRow, text: Metric | Callable[[float], str], href: str = ""
) -> CellView:
    """Format an estimate as a table cell.

    Args:
        value: the estimate.
        text: metric whose number format is used (without decimals from 1,000 on), or a function
            that formats a number.
        href: link of the cell.
    """
    ends = [abs(end) for end in (value.low, value.mean, value.high) if end is not None]
    if not isinstance(text, Metric):
        as_text = text
    elif max(ends, default=0.0) >= LARGE:
        as_text = cost_text
    else:
        as_text = partial(number, metric=text)
    bounds = ""
    if value.low is not None and value.high is not None:
        bounds = f"[{as_text(value.low)}, {as_text(value.high)}]"
        if isinstance(text, Metric) and as_text is not cost_text:
            bounds = interval(value.low, value.high, text)
    fields = {name: getattr(value, name) for name in Estimate.model_fields}
    if isinstance(value, MetricRow) and isinstance(text, Metric):
        fields |= {"as_wrong": value.as_wrong, "remarks": tuple(remarks(value, text))}
    elif value.unscored:
        fields["remarks"] = (f"{value.unscored:,} unscored",)
    mean = "-"
    if value.mean is not None:
        mean = as_text(value.mean)
    return CellView(text=mean, interval=bounds, href=href, **fields)


def axis(cells: Sequence[CellView | None], scale: float) -> tuple[float, float]:
    """Return the ends of an axis that covers all cells and 0.

    An axis of percentages runs from 0, or -100 if any value is negative, to 100.
    """
    ends = [0.0]
    for view in cells:
        if view is not None:
            ends += [end for end in (view.low, view.mean, view.high) if end is not None]
    low, high = min(ends), max(ends)
    if scale == PERCENT and high <= PERCENT:
        if low < 0:
            return -PERCENT, PERCENT
        return 0.0, PERCENT
    if high > low:
        return low, high
    return low, low + 1.0
