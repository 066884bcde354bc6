"""Editors or runs side by side: the numbers of `emend compare`, the probes that flipped, and both traces of a case."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emend.evals.case import Metric
from emend.evals.results.analyses.compare import Comparison, ComparisonRow
from emend.evals.show.report.analysis import difference_text, interval_text, p_text
from emend.evals.show.trace.answers import VERDICTS, deciding_scores
from emend.evals.show.trace.case_trace import Trace
from emend.evals.show.view.answers import CaseKey, Numbers, RunAnswers
from emend.evals.show.view.pages.case import probe_views, read_trace, waiting_page
from emend.evals.show.view.pages.cases import read_answers
from emend.evals.show.view.pages.common import PERCENT, PageRequest, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import Link, NamedValue, Page, Status, ViewData

MAX_SIDES, MAX_FLIPS = 6, 200
RIGHT, WRONG = VERDICTS.index("right"), VERDICTS.index("wrong")


class ChosenSide(NamedTuple):
    """An editor of a run, as one side of a comparison, by its number in the run."""

    place: RunPlace
    number: int

    @property
    def editor(self) -> str:
        """The editor's name."""
        return self.place.manifest.config.editors[self.number]

    @property
    def run(self) -> str:
        """The run's name."""
        return self.place.name

    @property
    def key(self) -> str:
        """The run's id, a full stop, and the number."""
        return f"{self.place.id}.{self.number}"

    @property
    def label(self) -> str:
        """The names of editor and run."""
        return f"{self.editor} · {self.run}"


def find_sides(request: PageRequest, keys: Sequence[str]) -> list[ChosenSide] | None:
    """The sides of those keys; None if one does not exist, or there are too few or too many."""
    sides = []
    for key in keys:
        name, _, number = key.rpartition(".")
        place = request.library.scan.find(name)
        if place is None or not number.isdecimal() or not number.isascii() or len(number) > 4:
            return None
        if int(number) >= len(place.manifest.config.editors):
            return None
        sides.append(ChosenSide(place, int(number)))
    return sides if 2 <= len(sides) <= MAX_SIDES and len(set(keys)) == len(keys) else None


def compare_page(request: PageRequest, sides: Sequence[ChosenSide]) -> Page:
    """The first side beside each of the others."""
    pairs, states = list[ViewData](), list[Status]()
    for other in sides[1:]:
        pair, status = _pair(request, sides[0], other)
        pairs.append(pair)
        states.append(status)
    status = next((each for each in states if each.state != "ready"), Status())
    title = " and ".join(side.editor for side in sides)
    words = _words(sides[0], sides[1])
    waiting = status.state == "computing"
    head = request.head(
        "compare", title, crumbs=[Link(text="Compare", href="compare.html")], words=words, waiting=waiting
    )
    return Page(head, ViewData(pairs=pairs, status=status))


def choice_page(request: PageRequest) -> Page:
    """The sides that can be compared."""
    sides = [
        ChosenSide(place, number)
        for place in request.library.scan.runs().values()
        for number in range(len(place.manifest.config.editors))
    ]
    chosen = request.query.get("side", ())
    problem = f"choose 2 to {MAX_SIDES} different editors of runs that are here" if chosen else ""
    return Page(request.head("compare_choose", "Compare"), ViewData(sides=sides, chosen=chosen, problem=problem))


def beside_page(request: PageRequest, sides: Sequence[ChosenSide], key: CaseKey) -> Page | None:
    """Both traces of a case beside each other; None where one of the runs has no such case."""
    a, b = sides[:2]
    views, traces = list[list[ViewData]](), list[Trace]()
    for side in (a, b):
        answers, status = request.library.answers(side.place)
        if answers is None:
            return waiting_page(request, side.place, f"Case {key.number}", status)
        place = answers.find(traces[0].setting, traces[0].case) if traces else key  # runs may number it differently
        position = answers.position_of(place) if place else None
        if place is None or position is None:
            return None
        traces.append(read_trace(request, side.place, answers, position))
        probes = [probe for probe in traces[-1].probes if probe.record.editor == side.editor]
        views.append(probe_views(side.place, place, traces[-1], probes))
    data = ViewData(a=a, b=b, edits=traces[0].edits, pairs=_pairs_of(*views))
    path = f"compare/{a.key}~{b.key}.html"
    crumbs = [Link(text="Compare", href="compare.html"), Link(text=f"{a.editor} and {b.editor}", href=path)]
    words = ["trace", str(a.place.folder), str(key.number), "--editor", a.editor]
    return Page(request.head("beside", f"Case {key.number}", crumbs=crumbs, words=words), data)


def _pairs_of(first: Sequence[ViewData], second: Sequence[ViewData]) -> list[ViewData]:
    """The answers of both sides to each probe; those that flipped first."""
    sides = [{(p.record.probe, p.record.repeat, p.record.checkpoint): p for p in probes} for probes in (first, second)]
    both = [(sides[0].get(key), sides[1].get(key)) for key in dict.fromkeys([*sides[0], *sides[1]])]
    pairs = [
        ViewData(a=a, b=b, flipped=bool(a and b and {a.verdict, b.verdict} == {"right", "wrong"})) for a, b in both
    ]
    return sorted(pairs, key=lambda pair: not pair.flipped)


def _words(a: ChosenSide, b: ChosenSide) -> list[str]:
    folders = [str(a.place.folder)] + ([str(b.place.folder)] if b.place.id != a.place.id else [])
    return ["compare", *folders, "--editor-a", a.editor, "--editor-b", b.editor]


def _pair(request: PageRequest, a: ChosenSide, b: ChosenSide) -> tuple[ViewData, Status]:
    """The comparison of a side with the base."""
    folders = [a.place.folder] + ([b.place.folder] if b.place.id != a.place.id else [])
    comparison, status = request.library.results.get("compare", folders, a.editor, b.editor, "0")
    if not isinstance(comparison, Comparison):
        return ViewData(a=a, b=b, coverage=(), notes=(), rows=(), flips=(), flips_total=0), status
    outcomes = Outcomes(request, a, b)
    metrics = {metric.name: metric for metric in comparison.metrics}
    coverage = [
        NamedValue(name=each.setting, value=f"{each.paired} probes of {each.cases} cases paired")
        for each in comparison.coverage
    ]
    flips, total = outcomes.flips()
    view = ViewData(
        a=a,
        b=b,
        coverage=coverage,
        notes=comparison.notes,
        rows=[_row(row, metrics[row.metric], outcomes) for row in comparison.rows],
        flips=flips,
        flips_total=total,
    )
    return view, status if status.state != "ready" or outcomes.complete else Status(state="computing")


def _row(row: ComparisonRow, metric: Metric, outcomes: "Outcomes") -> ViewData:
    """A metric of both sides as text; `mean`, `low` and `high` are those of the difference, in the metric's unit."""
    paired = row.paired
    better = ""
    if paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high:
        better = "b better" if (paired.low > 0) == metric.higher_is_better else "a better"
    mean, low, high = (
        None if end is None else end * metric.scale for end in (paired.difference, paired.low, paired.high)
    )
    return ViewData(
        **dict(row),
        unit="%" if metric.scale == PERCENT else "",
        a=difference_text(paired.mean_a, metric),
        b=difference_text(paired.mean_b, metric),
        difference=difference_text(paired.difference, metric, "+"),
        interval="" if paired.low is None else interval_text(row, metric),
        mean=mean,
        low=low,
        high=high,
        p=p_text(paired.p),
        cells=outcomes.cells(row, metric),
        verdict=better,
    )


class Pairing(NamedTuple):
    """Answers of two editors to the same probes: 3 x 3 counts of verdicts by setting and kind, and lines of flips."""

    counts: Numbers
    flipped: tuple[list[int], list[int]]


def _pair_answers(a: RunAnswers, b: RunAnswers, editor_a: str, editor_b: str) -> Pairing:
    """Pair the answers by the question that was asked."""
    sides = a.first_answers(editor_a), b.first_answers(editor_b)
    _, *rows = np.intersect1d(sides[0]["question"], sides[1]["question"], return_indices=True)
    verdicts = [side["verdict"][at].astype(np.int64) for side, at in zip(sides, rows, strict=True)]
    positions, kinds = sides[0]["position"][rows[0]], sides[0]["kind"][rows[0]]
    sizes = len(a.settings) + 1, len(a.counts["kind"]), len(VERDICTS), len(VERDICTS)
    places = a.setting_of(positions), kinds, *verdicts
    counts = np.bincount(np.ravel_multi_index(places, sizes), minlength=math.prod(sizes)).reshape(sizes)
    flipped = np.flatnonzero((verdicts[0] + verdicts[1] == RIGHT + WRONG) & (verdicts[0] != verdicts[1]))
    flipped = flipped[np.lexsort((rows[0][flipped], positions[flipped]))]
    lines = (side["line"][at[flipped]].tolist() for side, at in zip(sides, rows, strict=True))
    return Pairing(counts, (next(lines), next(lines)))


class Outcomes:
    """Answers that both sides of a comparison have right and wrong, probe by probe, from the indexes of their runs.

    Args:
        request: of the page.
        a: the base.
        b: the other side.
    """

    def __init__(self, request: PageRequest, a: ChosenSide, b: ChosenSide) -> None:
        self._request, self._sides, self._pairing = request, (a, b), None
        read = [request.library.answers(side.place)[0] for side in (a, b)]
        self.complete = None not in read
        if read[0] is not None and read[1] is not None:
            self._answers = read[0], read[1]
            self._pairing = _pair_answers(*self._answers, a.editor, b.editor)

    def cells(self, row: ComparisonRow, metric: Metric) -> ViewData | None:
        """The 2 x 2 counts of a metric whose probes are each right or wrong; None for any other.

        The links lead to the cases of those that one side alone has right, where both are of one run.
        """
        if self._pairing is None or not metric.share or metric.per not in ("record", "case") or row.judge:
            return None
        kinds, answers = [row.kind] if row.kind else list(metric.kinds), self._answers[0]
        metrics = self._sides[0].place.manifest.metrics
        if not kinds or any(deciding_scores(metrics, kind)[:1] != (metric.value,) for kind in kinds):
            return None
        places = [place for place, kind in enumerate(answers.counts["kind"]) if kind in kinds]
        counts = self._pairing.counts[answers.settings.index(row.setting)][places].sum(axis=0)
        both, only_a, only_b, neither = (
            int(counts[pair]) for pair in ((RIGHT, RIGHT), (RIGHT, WRONG), (WRONG, RIGHT), (WRONG, WRONG))
        )
        if both + only_a + only_b + neither != row.paired.n:
            return None  # a case's best or worst probe counts, or the values are judged: these counts are of others
        links = self._links(kinds[0] if len(kinds) == 1 else "")
        return ViewData(both=both, only_a=only_a, only_b=only_b, neither=neither, **links)

    def _links(self, kind: str) -> dict[str, str]:
        """Links to the cases that one side alone has right, where a filter of one run can select them."""
        a, b = self._sides
        if a.place.id != b.place.id or self._request.static:
            return {"href_a": "", "href_b": ""}
        path = run_path(a.place, "cases.html")
        return {
            name: self._request.link(path, where=f"{right.editor} right, {wrong.editor} wrong", kind=kind)
            for name, right, wrong in (("href_a", a, b), ("href_b", b, a))
        }

    def flips(self) -> tuple[list[ViewData], int]:
        """The first probes that one side has right and the other wrong, and the number of all."""
        if self._pairing is None:
            return [], 0
        sides = "~".join(side.key for side in self._sides)
        views = (
            read_answers(side.place, answers, lines[:MAX_FLIPS])
            for side, answers, lines in zip(self._sides, self._answers, self._pairing.flipped, strict=True)
        )
        flips = [
            ViewData(a=a, b=b, href=f"compare/{sides}/{a.case.rpartition('/')[2]}") for a, b in zip(*views, strict=True)
        ]
        return flips, len(self._pairing.flipped[0])
