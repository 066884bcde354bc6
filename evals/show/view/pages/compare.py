"""Pages that compare editors of one or several runs.

They show the numbers of `emend compare`, the probes whose verdict flipped, and both traces of a
case.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from emend.evals.case import Metric
from emend.evals.results.analyses.compare import Comparison, ComparisonRow
from emend.evals.show.report.analysis import (
    difference_text,
    interval_text,
    not_shown,
    p_text,
    visible_rows,
)
from emend.evals.show.trace.case_trace import Trace
from emend.evals.show.trace.verdicts import VERDICTS, deciding_scores
from emend.evals.show.view.answers import CaseKey, Numbers, RunAnswers
from emend.evals.show.view.pages.case import probe_views, read_trace, waiting_page
from emend.evals.show.view.pages.cases import read_answers
from emend.evals.show.view.pages.common import PERCENT, PageRequest, run_path
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import Link, NamedValue, Page, Status, ViewData

MAX_SIDES, MAX_FLIPS = 6, 200
RIGHT, WRONG = VERDICTS.index("right"), VERDICTS.index("wrong")


class ChosenSide(NamedTuple):
    """One side of a comparison: a run and the number of one of its editors."""

    location: RunLocation
    number: int

    @property
    def editor(self) -> str:
        """Name of the editor."""
        return self.location.manifest.config.editors[self.number]

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.location.name

    @property
    def key(self) -> str:
        """Key of the side in paths: run id, full stop, number of the editor."""
        return f"{self.location.id}.{self.number}"

    @property
    def label(self) -> str:
        """Names of the editor and the run."""
        return f"{self.editor} · {self.run}"


def find_sides(request: PageRequest, keys: Sequence[str]) -> list[ChosenSide] | None:
    """Return the sides with these keys; None if one is unknown, or there are not 2 to 6 of them."""
    sides = []
    for key in keys:
        name, _, number = key.rpartition(".")
        location = request.library.scan.find(name)
        if location is None or not number.isdecimal() or not number.isascii() or len(number) > 4:
            return None
        if int(number) >= len(location.manifest.config.editors):
            return None
        sides.append(ChosenSide(location, int(number)))
    if 2 <= len(sides) <= MAX_SIDES and len(set(keys)) == len(keys):
        return sides
    return None


def compare_page(request: PageRequest, sides: Sequence[ChosenSide]) -> Page:
    """Build the page that compares the first side with each of the others."""
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
        "compare",
        title,
        crumbs=[Link(text="Compare", href="compare.html")],
        words=words,
        waiting=waiting,
    )
    return Page(head, ViewData(pairs=pairs, status=status))


def choice_page(request: PageRequest) -> Page:
    """Build the page on which users choose the sides to compare."""
    sides = [
        ChosenSide(location, number)
        for location in request.library.scan.runs().values()
        for number in range(len(location.manifest.config.editors))
    ]
    chosen = request.query.get("side", ())
    problem = ""
    if chosen:
        problem = f"choose 2 to {MAX_SIDES} different editors of the runs in this viewer"
    return Page(
        request.head("compare_choose", "Compare"),
        ViewData(sides=sides, chosen=chosen, problem=problem),
    )


def beside_page(request: PageRequest, sides: Sequence[ChosenSide], key: CaseKey) -> Page | None:
    """Build the page with both traces of a case; None if a run does not have the case."""
    a, b = sides[:2]
    views, traces = list[list[ViewData]](), list[Trace]()
    for side in (a, b):
        answers, status = request.library.answers(side.location)
        if answers is None:
            return waiting_page(request, side.location, f"Case {key.number}", status)
        own_key: CaseKey | None = key
        if traces:
            # the number of a case can differ between runs
            own_key = answers.find(traces[0].setting, traces[0].case)
        position = None
        if own_key:
            position = answers.position_of(own_key)
        if own_key is None or position is None:
            return None
        traces.append(read_trace(request, side.location, answers, position))
        probes = [probe for probe in traces[-1].probes if probe.record.editor == side.editor]
        views.append(probe_views(side.location, own_key, traces[-1], probes))
    data = ViewData(a=a, b=b, edits=traces[0].edits, pairs=_pairs_of(*views))
    path = f"compare/{a.key}~{b.key}.html"
    crumbs = [
        Link(text="Compare", href="compare.html"),
        Link(text=f"{a.editor} and {b.editor}", href=path),
    ]
    words = ["trace", str(a.location.folder), str(key.number), "--editor", a.editor]
    return Page(request.head("beside", f"Case {key.number}", crumbs=crumbs, words=words), data)


def _by_probe(probes: Sequence[ViewData]) -> dict[tuple[str, int, int], ViewData]:
    return {(p.record.probe, p.record.repeat, p.record.checkpoint): p for p in probes}


def _folders(a: ChosenSide, b: ChosenSide) -> list[Path]:
    """Return the run folders of both sides: one folder if both editors are of the same run."""
    folders = [a.location.folder]
    if b.location.id != a.location.id:
        folders.append(b.location.folder)
    return folders


def _pairs_of(first: Sequence[ViewData], second: Sequence[ViewData]) -> list[ViewData]:
    """Pair the answers of both sides by probe; probes whose verdict flipped come first."""
    sides = [_by_probe(probes) for probes in (first, second)]
    both = [(sides[0].get(key), sides[1].get(key)) for key in dict.fromkeys([*sides[0], *sides[1]])]
    pairs = [
        ViewData(a=a, b=b, flipped=bool(a and b and {a.verdict, b.verdict} == {"right", "wrong"}))
        for a, b in both
    ]
    return sorted(pairs, key=lambda pair: not pair.flipped)


def _words(a: ChosenSide, b: ChosenSide) -> list[str]:
    folders = [str(folder) for folder in _folders(a, b)]
    return ["compare", *folders, "--editor-a", a.editor, "--editor-b", b.editor]


def _pair(request: PageRequest, a: ChosenSide, b: ChosenSide) -> tuple[ViewData, Status]:
    """Compare side `b` with the base `a`, and return the status of the computation."""
    folders = _folders(a, b)
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
        notes=[*comparison.notes, *not_shown(comparison)],
        rows=[_row(row, metrics[row.metric], outcomes) for row in visible_rows(comparison)],
        flips=flips,
        flips_total=total,
    )
    if status.state == "ready" and not outcomes.complete:
        status = Status(state="computing")
    return view, status


def _row(row: ComparisonRow, metric: Metric, outcomes: "Outcomes") -> ViewData:
    """Format a row of the comparison.

    `mean`, `low` and `high` describe the difference between both sides, in the metric's unit.
    """
    paired = row.paired
    better = ""
    if paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high:
        better = "a better"
        if (paired.low > 0) == metric.higher_is_better:
            better = "b better"
    mean, low, high = (
        None if end is None else end * metric.scale
        for end in (paired.difference, paired.low, paired.high)
    )
    return ViewData(
        **dict(row),
        unit="%" * (metric.scale == PERCENT),
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
    """Paired answers of two editors to the same probes.

    `counts` has the shape (settings + 1, kinds, 3, 3), with the verdicts of both editors as last
    axes; `flipped` holds, for each editor, the line numbers of its answers to flipped probes.
    """

    counts: Numbers
    flipped: tuple[list[int], list[int]]


def _pair_answers(a: RunAnswers, b: RunAnswers, editor_a: str, editor_b: str) -> Pairing:
    """Pair the answers of both editors by question."""
    sides = a.first_answers(editor_a), b.first_answers(editor_b)
    _, *rows = np.intersect1d(sides[0]["question"], sides[1]["question"], return_indices=True)
    verdicts = [side["verdict"][at].astype(np.int64) for side, at in zip(sides, rows, strict=True)]
    positions, kinds = sides[0]["position"][rows[0]], sides[0]["kind"][rows[0]]
    sizes = len(a.settings) + 1, len(a.counts["kind"]), len(VERDICTS), len(VERDICTS)
    axes = a.setting_of(positions), kinds, *verdicts
    counts = np.bincount(np.ravel_multi_index(axes, sizes), minlength=math.prod(sizes)).reshape(
        sizes
    )
    flipped = np.flatnonzero(
        (verdicts[0] + verdicts[1] == RIGHT + WRONG) & (verdicts[0] != verdicts[1])
    )
    flipped = flipped[np.lexsort((rows[0][flipped], positions[flipped]))]
    lines = (side["line"][at[flipped]].tolist() for side, at in zip(sides, rows, strict=True))
    return Pairing(counts, (next(lines), next(lines)))


class Outcomes:
    """Verdicts of both sides of a comparison, paired by probe.

    Args:
        request: request of the page.
        a: the base.
        b: the side compared with the base.
    """

    def __init__(self, request: PageRequest, a: ChosenSide, b: ChosenSide) -> None:
        self._request, self._sides, self._pairing = request, (a, b), None
        read = [request.library.answers(side.location)[0] for side in (a, b)]
        self.complete = None not in read
        if read[0] is not None and read[1] is not None:
            self._answers = read[0], read[1]
            self._pairing = _pair_answers(*self._answers, a.editor, b.editor)

    def cells(self, row: ComparisonRow, metric: Metric) -> ViewData | None:
        """Return the 2 x 2 counts of right and wrong answers; None if the metric has none.

        Counts of probes that only one side answers right link to their cases, if both editors are
        of the same run.
        """
        if (
            self._pairing is None
            or not metric.share
            or metric.per not in ("record", "case")
            or row.judge
        ):
            return None
        answers, kinds = self._answers[0], list(metric.kinds)
        if row.kind:
            kinds = [row.kind]
        metrics = self._sides[0].location.manifest.metrics
        if not kinds or any(
            deciding_scores(metrics, kind)[:1] != (metric.value,) for kind in kinds
        ):
            return None
        columns = [n for n, kind in enumerate(answers.counts["kind"]) if kind in kinds]
        counts = self._pairing.counts[answers.settings.index(row.setting)][columns].sum(axis=0)
        both, only_a, only_b, neither = (
            int(counts[pair])
            for pair in ((RIGHT, RIGHT), (RIGHT, WRONG), (WRONG, RIGHT), (WRONG, WRONG))
        )
        if both + only_a + only_b + neither != row.paired.n:
            # the metric takes the best or worst probe of a case, or its values are judged
            return None
        kind = ""
        if len(kinds) == 1:
            kind = kinds[0]
        links = self._links(kind)
        return ViewData(both=both, only_a=only_a, only_b=only_b, neither=neither, **links)

    def _links(self, kind: str) -> dict[str, str]:
        """Return links to the cases that only one side answers right, if both are of one run."""
        a, b = self._sides
        if a.location.id != b.location.id or self._request.static:
            return {"href_a": "", "href_b": ""}
        path = run_path(a.location, "cases.html")
        return {
            name: self._request.link(
                path, where=f"{right.editor} right, {wrong.editor} wrong", kind=kind
            )
            for name, right, wrong in (("href_a", a, b), ("href_b", b, a))
        }

    def flips(self) -> tuple[list[ViewData], int]:
        """Return the first `MAX_FLIPS` flipped probes, and the number of all of them."""
        if self._pairing is None:
            return [], 0
        sides = "~".join(side.key for side in self._sides)
        views = (
            read_answers(side.location, answers, lines[:MAX_FLIPS])
            for side, answers, lines in zip(
                self._sides, self._answers, self._pairing.flipped, strict=True
            )
        )
        flips = [
            ViewData(a=a, b=b, href=f"compare/{sides}/{a.case.rpartition('/')[2]}")
            for a, b in zip(*views, strict=True)
        ]
        return flips, len(self._pairing.flipped[0])
