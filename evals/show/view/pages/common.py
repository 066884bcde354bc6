"""Parts of several pages: their heads, links, and estimates as cells."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.show.report.layout import interval, number
from emend.evals.show.report.metrics import remarks
from emend.evals.show.report.secondary import cost_text
from emend.evals.show.view.library import Library, command
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import CellView, Link, NamedValue, PageHead
from emend.memory.distribution import installed_version

TABS = (
    ("run", "Results", "index.html"),
    ("cases", "Cases", "cases.html"),
    ("retrieval", "Retrieval", "retrieval.html"),
    ("judges", "Judges", "judges.html"),
    ("errors", "Errors", "errors.html"),
    ("live", "Live", "live.html"),
)
REFRESH = 2
"""Seconds after which a page that waits for numbers is loaded again."""
PERCENT = 100.0
LARGE = 1000.0
"""Size from which on a number is shown without decimals."""
Query = Mapping[str, Sequence[str]]


class PageRequest(NamedTuple):
    """Sources of a page: the runs, the path and the query; a static page has no links with a query."""

    library: Library
    path: str
    query: Query
    static: bool = False

    def value(self, name: str) -> str:
        """The first value of a parameter, or an empty text."""
        return next(iter(self.query.get(name, ())), "")

    def offset(self, name: str) -> int:
        """The number of a parameter, with which a page of a long list begins; 0 without one."""
        text = self.value(name)
        return int(text) if text.isdecimal() and len(text) < 12 else 0

    def link(self, path: str, **query: str) -> str:
        """A path with a query, which a static page's links have not."""
        parameters = {name: value for name, value in query.items() if value}
        return f"{path}?{urlencode(parameters)}" if parameters and not self.static else path

    def head(
        self,
        name: str,
        title: str,
        place: RunPlace | None = None,
        crumbs: Sequence[Link] = (),
        words: Sequence[str] = (),
        waiting: bool = False,
        tab: str = "",
    ) -> PageHead:
        """Head of a page.

        Args:
            name: of its template.
            title: of the page.
            place: the run that it is about.
            crumbs: between the run and the page.
            words: of the command that gives the same numbers.
            waiting: whether it waits for numbers.
            tab: of the run's pages, where it is none itself.
        """
        before = (Link(text="Runs", href="index.html"),) if name != "runs" else ()
        if place is not None:
            before = (*before, Link(text=place.name, href=run_path(place)))
        return PageHead(
            name=name,
            title=title,
            root="../" * self.path.count("/"),
            static=self.static,
            crumbs=(*before, *crumbs),
            tabs=self._tabs(place, tab or name) if place else (),
            command=command(*words) if words else "",
            version=installed_version(),
            refresh=REFRESH if waiting and not self.static else 0,
        )

    def _tabs(self, place: RunPlace, current: str) -> tuple[Link, ...]:
        return tuple(
            Link(text=text, href=run_path(place, file), current=name == current)
            for name, text, file in TABS
            if name != "live" or not self.static
        )


def run_path(place: RunPlace, file: str = "index.html") -> str:
    """Path of a page of a run."""
    return f"run/{place.id}/{file}"


def case_path(place: RunPlace, setting: int, case: int) -> str:
    """Path of the page of a case."""
    return run_path(place, f"case/{setting}-{case}.html")


def facts(values: Mapping[str, object]) -> tuple[NamedValue, ...]:
    """Names and values as text."""
    return tuple(NamedValue(name=str(name), value=text_of(value)) for name, value in values.items())


def text_of(value: object) -> str:
    """A value as text: numbers in short, lists with commas, mappings as `name=value`."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text_of(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text_of, value))
    return "" if value is None else str(value)


def cell(value: Estimate | MetricRow, text: Metric | Callable[[float], str], href: str = "") -> CellView:
    """An estimate in the format of a metric, without decimals where it is large, or as a function writes it."""
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
    return CellView(text="-" if value.mean is None else as_text(value.mean), interval=bounds, href=href, **fields)


def marked(
    cells: Sequence[CellView | None], higher_is_better: bool, broken: Sequence[bool] = ()
) -> list[CellView | None]:
    """The cells of a column with marks: the best one where its interval is apart from all others, else all that tie.

    Those of broken models get none.
    """
    sign = 1 if higher_is_better else -1
    means = {
        place: sign * (each.mean if each.as_wrong is None else each.as_wrong)
        for place, each in enumerate(cells)
        if each and each.mean is not None and not any(broken[place : place + 1])
    }
    if len(means) < 2:
        return list(cells)
    top = max(means, key=lambda place: means[place])
    ties = [place for place in means if place == top or _overlap(cells[top], cells[place])]
    mark = "best" if len(ties) == 1 else "tied"
    if len(ties) == len(means) and len(set(means.values())) == 1:
        return list(cells)
    return [
        each.model_copy(update={"mark": mark}) if each and place in ties else each for place, each in enumerate(cells)
    ]


def _overlap(first: CellView | None, second: CellView | None) -> bool:
    """True if two intervals overlap; one without an interval may be anywhere."""
    if first is None or second is None or None in (first.low, first.high, second.low, second.high):
        return True
    return first.low <= second.high and second.low <= first.high  # type: ignore[operator]


def axis(cells: Sequence[CellView | None], scale: float) -> tuple[float, float]:
    """Ends of an axis that has room for all cells: that of percent is whole, any other begins or ends at 0."""
    ends = [end for each in cells if each for end in (each.low, each.mean, each.high) if end is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    if scale == PERCENT and high <= PERCENT:
        return (0.0 if low >= 0 else -PERCENT), PERCENT
    return low, high if high > low else low + 1.0
