"""Two runs, or two editors of one run, compared probe by probe, by the judgements that they share too."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from sys import intern
from typing import NamedTuple

from emend.evals.case import Metric
from emend.evals.judging.store import NO_SCORING, Scoring, find_scoring, judged_records, list_scorings
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.evals.results.aggregate.judged import with_judged
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


class SharedScoring(NamedTuple):
    """The scoring of each run, which have one id or are both None, and what must be said of it."""

    a: Scoring | None
    b: Scoring | None
    note: str = ""


def same_scoring(folder_a: Path, folder_b: Path, name: str | None = None) -> SharedScoring:
    """The newest scoring that both runs have; an id says who judged and how, so like ids mean like judging.

    Args:
        folder_a: a run folder.
        folder_b: another one, or the same.
        name: the id of a scoring or the beginning of it, or `none`.

    Raises:
        BadSettings: one is named, and one of the runs has not got it.
        BadData: a scoring cannot be read.
    """
    if name == NO_SCORING:
        return SharedScoring(None, None)
    theirs = {ours_scoring.id: ours_scoring for ours_scoring in list_scorings(folder_b)}
    if name is not None:
        ours_scoring = find_scoring(folder_a, name)
        if ours_scoring is None or ours_scoring.id not in theirs:
            who, which = (ours_scoring.judge, ours_scoring.id) if ours_scoring else ("NAME", name)
            raise BadSettings(
                f"'{folder_b}' has no scoring '{which}', and only like judging of both is compared. Judge it as "
                f"'{folder_a}' was: emend judge run {folder_b} --judge {who}"
            )
        return SharedScoring(ours_scoring, theirs[ours_scoring.id])
    ours = list_scorings(folder_a)
    for ours_scoring in reversed(ours):
        if ours_scoring.id in theirs:
            return SharedScoring(ours_scoring, theirs[ours_scoring.id])
    return SharedScoring(None, None, _left_out(ours, list(theirs.values())))


def _left_out(ours: list[Scoring], theirs: list[Scoring]) -> str:
    if not ours and not theirs:
        return ""
    who = [notes[-1].judge if notes else "nobody" for notes in (ours, theirs)]
    return (
        f"judged numbers are left out: the first run was judged by {who[0]}, the second by {who[1]}, not by the same "
        "judges in the same way; emend judge run makes it so"
    )


def metrics_of(run: Manifest, scoring: Scoring | None, outputs: Iterable[tuple[str, str]]) -> list[Metric]:
    """The metrics of a run, and of a scoring where there is one."""
    return list(run.metrics) if scoring is None else with_judged(scoring, set(outputs), run.metrics)


BY_KIND = ("record", "case", "any", "all")
"""Ways of making up a mean that can also be taken over one of the metric's kinds."""

COMPARED = "setting editor checkpoint case probe repeat kind form prompt gold values unscored excluded".split()
"""Fields of a record."""
SETTINGS = (
    "model mode retriever embedding prompt_template protocols form overrides benchmark_options limit seed".split()
)
"""Options of a run whose differences are named beside a comparison."""


class ComparisonRow(FrozenModel):
    """A metric of two editors under a setting; `kind` is empty over all its kinds. Shares are not scaled.

    `judge` says who judged, and how far that agrees with people; it is empty for what no judge has said.
    """

    editor_a: str
    editor_b: str
    setting: str
    metric: str
    kind: str = ""
    judge: str = ""
    paired: Paired


class Coverage(FrozenModel):
    """Number of probes of two editors paired under a setting, and of those that only one side has."""

    editor_a: str
    editor_b: str
    setting: str
    paired: int
    cases: int
    only_a: int
    only_b: int


class Comparison(FrozenModel):
    """The second run, or editor, less the first."""

    benchmark: str
    run_a: str
    run_b: str
    metrics: tuple[Metric, ...]
    coverage: tuple[Coverage, ...]
    rows: tuple[ComparisonRow, ...]
    notes: tuple[str, ...]
    """Differences between the runs beside the editor, and notes that explain the numbers."""


COMMON_VALUES: dict[float | None, float] = {0.0: 0.0, 1.0: 1.0}
"""The values of most outputs, one object for all records."""


class Key(NamedTuple):
    """Key that two records of the same probe share."""

    case: str
    probe: str
    repeat: int


class ProbeOutcome(NamedTuple):
    """The outcome of a record: kind, form in which it was asked, hash of prompt and gold, outputs and their values."""

    kind: str
    form: str
    question: int
    outputs: tuple[str, ...]
    values: tuple[float | None, ...]
    """None for an unscored output."""

    def value(self, output: str) -> float | None:
        """The value of an output."""
        return self.values[self.outputs.index(output)]


Sides = dict[tuple[str, str], dict[Key, ProbeOutcome]]
"""Probe outcomes by setting and editor."""


def compare(
    folder_a: Path,
    folder_b: Path | None = None,
    editor_a: str | None = None,
    editor_b: str | None = None,
    checkpoint: int = 0,
    scoring: str | None = None,
) -> Comparison:
    """The difference of two runs, or of two editors of one, in every metric that both report.

    Args:
        folder_a: the run that is taken as the base.
        folder_b: the other run; None compares two editors of the first.
        editor_a: an editor of the first run; by default every editor that both runs have, with itself.
        editor_b: one of the other run.
        checkpoint: which asking of a sequence is taken: 0 is the first of every case, else the number of edits.
        scoring: whose judgements are compared, as in `same_scoring`.

    Raises:
        BadSettings: no such editor or scoring; the runs are not on the same data.
        BadData: no run there, or a damaged line.
    """
    other = folder_b or folder_a
    a, b = Manifest.read(folder_a), Manifest.read(other)
    chosen = _editors(a, b, folder_b is None, editor_a, editor_b)
    judged = same_scoring(folder_a, other, scoring)
    sides_a, sides_b = _both_sides(folder_a, folder_b, judged, chosen, checkpoint)
    outputs = {*_outputs(sides_a), *_outputs(sides_b)}
    refuse_other_protocols(a, b)
    theirs = [_plain(metric) for metric in metrics_of(b, judged.b, outputs)]
    metrics = [metric for metric in metrics_of(a, judged.a, outputs) if _plain(metric) in theirs]
    coverage, rows = list[Coverage](), list[ComparisonRow]()
    for (first, second), setting in product(chosen, [name for name in a.cases if name in b.cases]):
        names = {"editor_a": first, "editor_b": second, "setting": setting}
        left, right = sides_a.get((setting, first), {}), sides_b.get((setting, second), {})
        coverage.append(_coverage(names, left, right))
        for metric, kind, paired in _compared(left, right, metrics):
            judge = "" if metric in a.metrics else metric.group
            rows.append(ComparisonRow(**names, metric=metric.name, kind=kind, judge=judge, paired=paired))
    if not any(pair.paired for pair in coverage):
        raise BadSettings(_nothing(folder_a, other, coverage, checkpoint))
    return Comparison(
        benchmark=a.config.benchmark,
        run_a=str(folder_a),
        run_b=str(other),
        metrics=tuple(metrics),
        coverage=tuple(coverage),
        rows=tuple(rows),
        notes=(*_notes(a, b, coverage, rows), *_asked(a, b, checkpoint), *([judged.note] if judged.note else [])),
    )


def _refuse_other_data(a: Manifest, b: Manifest) -> None:
    if a.config.benchmark != b.config.benchmark:
        raise BadSettings(
            f"the runs are of '{a.config.benchmark}' and '{b.config.benchmark}': compare runs of one benchmark."
        )
    if not set(a.cases) & set(b.cases):
        raise BadSettings(
            f"the runs have the settings {', '.join(a.cases)} and {', '.join(b.cases)}: other edits are given under "
            "another setting. Run one of them with the other's --setting."
        )


def refuse_other_protocols(a: Manifest, b: Manifest) -> None:
    """Check that two runs count the same probes, and have a protocol in common by which they score them.

    Raises:
        BadSettings: they do not; names both.
    """
    if a.config.count_only != b.config.count_only:
        counted = " and ".join(run.config.count_only or "all probes" for run in (a, b))
        raise BadSettings(f"the runs count {counted}: give both the same --count-only.")
    first, second = ({metric.protocol for metric in run.metrics if metric.protocol} for run in (a, b))
    if first and second and not first & second:
        raise BadSettings(
            f"the runs score answers by {' and '.join(sorted(first))}, and by {' and '.join(sorted(second))}: one "
            f"cannot stand beside the other. Run one of them again with --protocol {min(first)} or {min(second)}."
        )


def _editors(
    a: Manifest, b: Manifest, alone: bool, editor_a: str | None, editor_b: str | None
) -> list[tuple[str, str]]:
    """Pairs of editors to compare, of runs on the same data."""
    _refuse_other_data(a, b)
    first, second = a.config.editors, b.config.editors
    for name, known in ((editor_a, first), (editor_b, second)):
        if name is not None and name not in known:
            raise BadSettings(f"no editor '{name}' in that run: {nearest(name, list(known))}")
    if alone:
        return [_two_of(first, editor_a, editor_b)]
    if editor_a is None and editor_b is None:
        if common := [name for name in first if name in second]:
            return [(name, name) for name in common]
        if len(first) == len(second) == 1:
            return [(first[0], second[0])]
        raise BadSettings(
            f"the runs have no editor in common ({', '.join(first)} and {', '.join(second)}): "
            "name one of each with --editor-a and --editor-b."
        )
    name_a, other = editor_a or editor_b or "", editor_b or editor_a or ""
    for name, known, option in ((name_a, first, "--editor-a"), (other, second, "--editor-b")):
        if name not in known:
            raise BadSettings(f"one of the runs has no editor '{name}': name one of {', '.join(known)} with {option}.")
    return [(name_a, other)]


def _two_of(editors: Sequence[str], editor_a: str | None, editor_b: str | None) -> tuple[str, str]:
    if len(editors) == 2:  # the second is the one that is not named
        editor_a = editor_a or next(name for name in editors if name != editor_b)
        editor_b = editor_b or next(name for name in editors if name != editor_a)
    if editor_a and editor_b and editor_a != editor_b:
        return editor_a, editor_b
    raise BadSettings(
        f"one run is compared with itself: name two of its editors ({', '.join(editors)}) with --editor-a and "
        "--editor-b, or give a second run."
    )


def _both_sides(
    folder_a: Path, folder_b: Path | None, judged: SharedScoring, chosen: list[tuple[str, str]], checkpoint: int
) -> tuple[Sides, Sides]:
    firsts, seconds = ({pair[side] for pair in chosen} for side in (0, 1))
    if folder_b is None:  # one reading serves both sides
        sides = _sides(folder_a, judged.a, firsts | seconds, checkpoint)
        return sides, sides
    first = _sides(folder_a, judged.a, firsts, checkpoint)
    return first, _sides(folder_b, judged.b, seconds, checkpoint)


def _sides(folder: Path, scoring: Scoring | None, editors: set[str], checkpoint: int) -> Sides:
    sides: Sides = {}
    known_outputs: dict[tuple[str, ...], tuple[str, ...]] = {}
    if scoring is None:
        records = read_fields(folder, COMPARED, checkpoint, editor=editors)
    else:
        records = judged_records(folder, scoring)
    for record in records:
        if record.editor in editors and record.checkpoint == checkpoint:
            side = sides.setdefault((record.setting, record.editor), {})
            values = {} if record.excluded else dict.fromkeys(record.unscored) | record.values
            outputs, question = tuple(values), hash((record.prompt, record.gold))
            # Of a million records the names, and every 0 and 1 as a number of its own, would take most of the memory.
            case, probe, kind, form = map(intern, (record.case, record.probe, record.kind, record.form))
            outputs = known_outputs.setdefault(outputs, outputs)
            numbers = tuple([COMMON_VALUES.get(value, value) for value in values.values()])
            side[Key(case, probe, record.repeat)] = ProbeOutcome(kind, form, question, outputs, numbers)
    return sides


def _plain(metric: Metric) -> Metric:
    """The metric without its group, which names a judge's calibration."""
    return metric.model_copy(update={"group": "", "protocol": "", "summary": ""})


def _outputs(sides: Sides) -> Iterator[tuple[str, str]]:
    for side in sides.values():
        for answer in side.values():
            yield from ((name, answer.kind) for name in answer.outputs)


def _coverage(names: dict[str, str], left: dict[Key, ProbeOutcome], right: dict[Key, ProbeOutcome]) -> Coverage:
    """Raises BadSettings where the same ids stand for other questions, as they may with a plug-in's own ids."""
    both = [key for key in left if key in right]
    for key in both:
        if left[key].question != right[key].question:
            raise BadSettings(
                f"case {key.case}, probe {key.probe}: the runs ask something else under the same id, so they are not "
                "on the same data. Run both on one version of it."
            )
        if (left[key].form or right[key].form) != (right[key].form or left[key].form):
            raise BadSettings(
                f"{names['editor_a']} was asked in the form {left[key].form}, {names['editor_b']} in {right[key].form} "
                f"(case {key.case}, probe {key.probe}): their figures measure different things. Run one of them again "
                f"with --form {left[key].form} or --form {right[key].form}."
            )
    cases, count = len({key.case for key in both}), len(both)
    return Coverage(**names, paired=count, cases=cases, only_a=len(left) - count, only_b=len(right) - count)


def _compared(
    left: dict[Key, ProbeOutcome], right: dict[Key, ProbeOutcome], metrics: Sequence[Metric]
) -> Iterator[tuple[Metric, str, Paired]]:
    """Metrics over all their kinds, and over each kind alone if there are several."""
    for metric in metrics:
        pairs = list(_pairs(left, right, metric))
        if not pairs:
            continue
        measure = partial(compare_pairs, per=metric.per, share=metric.share)
        yield metric, "", measure(pairs)
        kinds = sorted({pair.kind for pair in pairs}, key=metric.kinds.index if metric.kinds else str)
        for kind in kinds if len(kinds) > 1 and metric.per in BY_KIND else ():
            yield metric, kind, measure([pair for pair in pairs if pair.kind == kind])


def _pairs(left: dict[Key, ProbeOutcome], right: dict[Key, ProbeOutcome], metric: Metric) -> Iterator[Pair]:
    """Probes that both sides were to be scored on; a side without a number is unscored."""
    for key, mine in left.items():
        other = right.get(key)
        if other is None or (metric.kinds and mine.kind not in metric.kinds):
            continue
        if metric.value in mine.outputs and metric.value in other.outputs:
            yield Pair(key.case, mine.kind, mine.value(metric.value), other.value(metric.value), key.repeat)


def _nothing(folder_a: Path, other: Path, coverage: Sequence[Coverage], checkpoint: int) -> str:
    if checkpoint and not any(pair.only_a + pair.only_b for pair in coverage):
        return f"nothing was asked again at checkpoint {checkpoint}: emend report names the checkpoints that there are."
    where = f" at checkpoint {checkpoint}" if checkpoint else ""
    counts = " and ".join(str(sum(getattr(pair, side) for pair in coverage)) for side in ("only_a", "only_b"))
    return (
        f"not one probe of '{folder_a}' is in '{other}' too{where} ({counts} probes): the runs are not on the same "
        "data. Give both the same --data, --benchmark-option, --limit and --seed."
    )


def _notes(a: Manifest, b: Manifest, coverage: Sequence[Coverage], rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Differences beside the editor, and notes that explain the numbers."""
    yield "second less first, paired by probe; 95 % intervals by bootstrap over cases"
    tests = " or ".join(sorted({row.paired.test for row in rows if row.paired.test}))
    if tests:
        yield f"p: {tests} test by case; of {len(rows)} rows about {0.05 * len(rows):.1f} fall below 0.05 by chance"
    for pair in coverage:
        if pair.only_a or pair.only_b:
            yield (
                f"{pair.setting}, {pair.editor_a} and {pair.editor_b}: {pair.paired} probes of {pair.cases} cases are "
                f"paired; {pair.only_a} are in the first alone, {pair.only_b} in the second alone"
            )
    for name in SETTINGS:
        # A manifest has the mode that the benchmark decides.
        first, second = ((run.mode if name == "mode" else None) or getattr(run.config, name) for run in (a, b))
        if first != second:
            yield f"{name} differs: {_shown(first)} and {_shown(second)}"


def _asked(a: Manifest, b: Manifest, checkpoint: int) -> Iterator[str]:
    """When the compared answers of a sequence were given."""
    if checkpoint:
        yield f"answers are those after {checkpoint} edits"
    elif any(run.config.reevaluate_at for run in (a, b)):
        yield (
            "answers are those right after each case's own edits; --checkpoint N compares those after N edits "
            "(emend report names them)"
        )


def _shown(setting: object) -> str:
    return "the default" if setting in (None, (), "") else str(setting)
