"""Paired comparison of two runs, or two editors of one run, including shared judgements."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from sys import intern
from typing import NamedTuple

from emend.evals.case import Metric
from emend.evals.judging.scorings.manifest import Scoring
from emend.evals.judging.scorings.verdicts import judged_records
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.metrics.headline import CHAT, ProbeKinds, headlines_of
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.evals.results.analyses.shared_scoring import SharedScoring, metrics_of, same_scoring
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

# Values of `Metric.per` whose mean can also be taken over a single kind of probe.
BY_KIND = ("record", "case", "any", "all")

# Fields of a record that are read.
COMPARED = (
    "setting editor checkpoint case probe repeat kind form prompt gold values unscored excluded"
).split()
# Options of a run whose differences are noted in a comparison.
SETTINGS = (
    "model mode retriever embedding prompt_template prompts protocols form overrides "
    "benchmark_options limit seed".split()
)


class ComparisonRow(FrozenModel):
    """A metric of two editors under a setting; shares are not scaled.

    `kind` is empty for a row over all kinds of probe. `judge` names the judge with its agreement
    with people; it is empty for metrics without a judge.
    """

    editor_a: str
    editor_b: str
    setting: str
    metric: str
    kind: str = ""
    judge: str = ""
    paired: Paired


class Coverage(FrozenModel):
    """Numbers of paired and unpaired probes of two editors under a setting."""

    editor_a: str
    editor_b: str
    setting: str
    paired: int
    cases: int
    only_a: int
    only_b: int


class Comparison(FrozenModel):
    """Differences of a second run or editor minus a first one."""

    benchmark: str
    run_a: str
    run_b: str
    metrics: tuple[Metric, ...]
    coverage: tuple[Coverage, ...]
    rows: tuple[ComparisonRow, ...]
    notes: tuple[str, ...]
    """Differences between the runs other than the editor, and notes that explain the numbers."""
    hidden: tuple[str, ...] = ()
    """Metrics that the table leaves out in favour of their headlines."""


# Shared objects for the most frequent values, so that records do not each hold their own.
COMMON_VALUES: dict[float | None, float] = {0.0: 0.0, 1.0: 1.0}


class Key(NamedTuple):
    """Key that two records of the same probe share."""

    case: str
    probe: str
    repeat: int


class ProbeOutcome(NamedTuple):
    """Result of a record: kind, form, hash of prompt and gold answers, and values by output."""

    kind: str
    form: str
    question: int
    outputs: tuple[str, ...]
    values: tuple[float | None, ...]
    """Value of each output; None for an unscored output."""

    def value(self, output: str) -> float | None:
        """Return the value of an output."""
        return self.values[self.outputs.index(output)]


# Probe outcomes by setting and editor.
Sides = dict[tuple[str, str], dict[Key, ProbeOutcome]]


def compare(
    folder_a: Path,
    folder_b: Path | None = None,
    editor_a: str | None = None,
    editor_b: str | None = None,
    checkpoint: int = 0,
    scoring: str | None = None,
) -> Comparison:
    """Compare two runs, or two editors of one run, in every metric that both report.

    Args:
        folder_a: the run used as the base.
        folder_b: the other run; None compares two editors of the first.
        editor_a: an editor of the first run; by default each editor of both runs is compared with
            itself.
        editor_b: an editor of the other run.
        checkpoint: evaluation of a sequence to compare: 0 for the first one of every case, else the
            number of edits at a checkpoint.
        scoring: scoring to compare, as in `same_scoring`.

    Raises:
        BadSettings: there is no such editor or scoring, or the runs are not on the same data.
        BadData: a folder has no run, or a line is damaged.
    """
    other = folder_b or folder_a
    a, b = Manifest.read(folder_a), Manifest.read(other)
    chosen = _editors(a, b, folder_b is None, editor_a, editor_b)
    judged = same_scoring(folder_a, other, scoring)
    sides_a, sides_b = _both_sides(folder_a, folder_b, judged, chosen, checkpoint)
    outputs = {*_outputs(sides_a), *_outputs(sides_b)}
    refuse_other_protocols(a, b)
    metrics = _common_metrics(a, b, judged, outputs)
    coverage, rows = _compare_sides(a, b, chosen, sides_a, sides_b, metrics)
    if not any(pair.paired for pair in coverage):
        raise BadSettings(_nothing(folder_a, other, coverage, checkpoint))
    notes = [*_notes(a, b, coverage, rows), *_asked(a, b, checkpoint)]
    if judged.note:
        notes.append(judged.note)
    return Comparison(
        benchmark=a.config.benchmark,
        run_a=str(folder_a),
        run_b=str(other),
        metrics=tuple(metrics),
        coverage=tuple(coverage),
        rows=tuple(rows),
        notes=tuple(notes),
        hidden=_hidden(a, b, metrics, (*sides_a.values(), *sides_b.values())),
    )


def _compare_sides(
    a: Manifest,
    b: Manifest,
    chosen: Sequence[tuple[str, str]],
    sides_a: Sides,
    sides_b: Sides,
    metrics: Sequence[Metric],
) -> tuple[list[Coverage], list[ComparisonRow]]:
    """Return coverage and rows of every pair of editors in every setting of both runs.

    A metric that the first run's manifest lacks comes from a judge.
    """
    coverage, rows = list[Coverage](), list[ComparisonRow]()
    for (first, second), setting in product(chosen, [name for name in a.cases if name in b.cases]):
        names = {"editor_a": first, "editor_b": second, "setting": setting}
        left, right = sides_a.get((setting, first), {}), sides_b.get((setting, second), {})
        coverage.append(_coverage(names, left, right))
        for metric, kind, paired in _compared(left, right, metrics):
            if metric in a.metrics:
                judge = ""
            else:
                judge = metric.group
            rows.append(
                ComparisonRow(**names, metric=metric.name, kind=kind, judge=judge, paired=paired)
            )
    return coverage, rows


def _common_metrics(
    a: Manifest, b: Manifest, judged: SharedScoring, outputs: set[tuple[str, str]]
) -> list[Metric]:
    theirs = [_plain(metric) for metric in metrics_of(b, judged.b, outputs)]
    return [metric for metric in metrics_of(a, judged.a, outputs) if _plain(metric) in theirs]


def _hidden(
    a: Manifest, b: Manifest, metrics: Sequence[Metric], sides: Sequence[dict[Key, ProbeOutcome]]
) -> tuple[str, ...]:
    """Return the names of the metrics that are not headlines, given the forms of the probes."""
    chat = {outcome.kind for side in sides for outcome in side.values() if outcome.form == CHAT}
    protocols = {*a.config.protocols, *b.config.protocols}
    return tuple(sorted(headlines_of(metrics, ProbeKinds(chat, a.text_kinds), protocols).hidden))


def _refuse_other_data(a: Manifest, b: Manifest) -> None:
    if a.config.benchmark != b.config.benchmark:
        raise BadSettings(
            f"the runs are of '{a.config.benchmark}' and '{b.config.benchmark}': compare runs of "
            "one benchmark."
        )
    if not set(a.cases) & set(b.cases):
        raise BadSettings(
            f"the runs have the settings {', '.join(a.cases)} and {', '.join(b.cases)}: the edits "
            "differ between settings. Run one of them with the other's --setting."
        )


def refuse_other_protocols(a: Manifest, b: Manifest) -> None:
    """Check that two runs count the same probes and share a scoring protocol.

    Raises:
        BadSettings: the runs differ in this; the message names both.
    """
    if a.config.count_only != b.config.count_only:
        counted = " and ".join(run.config.count_only or "all probes" for run in (a, b))
        raise BadSettings(f"the runs count {counted}: give both the same --count-only.")
    first = {metric.protocol for metric in a.metrics if metric.protocol}
    second = {metric.protocol for metric in b.metrics if metric.protocol}
    if first and second and not first & second:
        raise BadSettings(
            f"the runs score answers by {' and '.join(sorted(first))}, and by "
            f"{' and '.join(sorted(second))}: these scores are not comparable. Run one of them "
            f"again with --protocol {min(first)} or {min(second)}."
        )


def _editors(
    a: Manifest, b: Manifest, alone: bool, editor_a: str | None, editor_b: str | None
) -> list[tuple[str, str]]:
    """Return the pairs of editors to compare, after a check that the runs use the same data."""
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
            raise BadSettings(
                f"one of the runs has no editor '{name}': name one of "
                f"{', '.join(known)} with {option}."
            )
    return [(name_a, other)]


def _two_of(editors: Sequence[str], editor_a: str | None, editor_b: str | None) -> tuple[str, str]:
    if len(editors) == 2:  # the second is the one that is not named
        editor_a = editor_a or next(name for name in editors if name != editor_b)
        editor_b = editor_b or next(name for name in editors if name != editor_a)
    if editor_a and editor_b and editor_a != editor_b:
        return editor_a, editor_b
    if len(editors) == 1:
        raise BadSettings(f"the run has one editor, {editors[0]}: give a second run.")
    raise BadSettings(
        f"one run is compared with itself: name two of its editors ({', '.join(editors)}) with "
        "--editor-a and --editor-b, or give a second run."
    )


def _both_sides(
    folder_a: Path,
    folder_b: Path | None,
    judged: SharedScoring,
    chosen: list[tuple[str, str]],
    checkpoint: int,
) -> tuple[Sides, Sides]:
    firsts = {first for first, _ in chosen}
    seconds = {second for _, second in chosen}
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
            if record.excluded:
                values = {}
            else:
                values = dict.fromkeys(record.unscored) | record.values
            outputs, question = tuple(values), hash((record.prompt, record.gold))
            # For a million records, repeated names and separate objects for 0 and 1 would take most
            # of the memory.
            case, probe, kind, form = map(
                intern, (record.case, record.probe, record.kind, record.form)
            )
            outputs = known_outputs.setdefault(outputs, outputs)
            numbers = tuple([COMMON_VALUES.get(value, value) for value in values.values()])
            side[Key(case, probe, record.repeat)] = ProbeOutcome(
                kind, form, question, outputs, numbers
            )
    return sides


def _plain(metric: Metric) -> Metric:
    """Return the metric without fields that may differ between runs, such as calibrations."""
    return metric.model_copy(update={"group": "", "protocol": "", "summary": ""})


def _outputs(sides: Sides) -> Iterator[tuple[str, str]]:
    for side in sides.values():
        for answer in side.values():
            yield from ((name, answer.kind) for name in answer.outputs)


def _coverage(
    names: dict[str, str], left: dict[Key, ProbeOutcome], right: dict[Key, ProbeOutcome]
) -> Coverage:
    """Count paired and unpaired probes.

    Raises:
        BadSettings: the runs asked different questions under the same ids, which is possible with
            a plug-in's own ids, or in different forms.
    """
    both = [key for key in left if key in right]
    for key in both:
        if left[key].question != right[key].question:
            raise BadSettings(
                f"case {key.case}, probe {key.probe}: the runs ask different questions under the "
                "same id, so their data differ. Run both on the same version of the data."
            )
        if (left[key].form or right[key].form) != (right[key].form or left[key].form):
            raise BadSettings(
                f"{names['editor_a']} was asked in the form {left[key].form}, {names['editor_b']} "
                f"in {right[key].form} (case {key.case}, probe {key.probe}): their figures measure "
                f"different things. Run one of them again with --form {left[key].form} or --form "
                f"{right[key].form}."
            )
    cases, count = len({key.case for key in both}), len(both)
    return Coverage(
        **names, paired=count, cases=cases, only_a=len(left) - count, only_b=len(right) - count
    )


def _compared(
    left: dict[Key, ProbeOutcome], right: dict[Key, ProbeOutcome], metrics: Sequence[Metric]
) -> Iterator[tuple[Metric, str, Paired]]:
    """Yield each metric over all its kinds of probe, and over each kind if there are several."""
    for metric in metrics:
        pairs = list(_pairs(left, right, metric))
        if not pairs:
            continue
        measure = partial(compare_pairs, per=metric.per, share=metric.share)
        yield metric, "", measure(pairs)
        kinds = {pair.kind for pair in pairs}
        if len(kinds) < 2 or metric.per not in BY_KIND:
            continue
        for kind in sorted(kinds, key=metric.kinds.index if metric.kinds else str):
            yield metric, kind, measure([pair for pair in pairs if pair.kind == kind])


def _pairs(
    left: dict[Key, ProbeOutcome], right: dict[Key, ProbeOutcome], metric: Metric
) -> Iterator[Pair]:
    """Yield the probes that were to be scored on both sides; missing numbers count as unscored."""
    for key, mine in left.items():
        other = right.get(key)
        if other is None or (metric.kinds and mine.kind not in metric.kinds):
            continue
        if metric.value in mine.outputs and metric.value in other.outputs:
            yield Pair(
                key.case, mine.kind, mine.value(metric.value), other.value(metric.value), key.repeat
            )


def _nothing(folder_a: Path, other: Path, coverage: Sequence[Coverage], checkpoint: int) -> str:
    if checkpoint and not any(pair.only_a + pair.only_b for pair in coverage):
        return (
            f"nothing was asked again at checkpoint {checkpoint}: emend report lists the "
            "checkpoints."
        )
    if checkpoint:
        where = f" at checkpoint {checkpoint}"
    else:
        where = ""
    only_a = sum(pair.only_a for pair in coverage)
    only_b = sum(pair.only_b for pair in coverage)
    return (
        f"no probe of '{folder_a}' is also in '{other}'{where} ({only_a} and {only_b} probes): "
        "the runs are not on the same data. Give both the same --data, --benchmark-option, "
        "--limit and --seed."
    )


def _notes(
    a: Manifest, b: Manifest, coverage: Sequence[Coverage], rows: Sequence[ComparisonRow]
) -> Iterator[str]:
    """Yield differences other than the editor, and notes that explain the numbers."""
    yield (
        "second minus first, paired by probe; 95 % intervals: bootstrap over cases, Newcombe's if "
        "few differ"
    )
    tests = " or ".join(sorted({row.paired.test for row in rows if row.paired.test}))
    if tests:
        yield (
            f"p: {tests} test by case; of {len(rows)} rows about {0.05 * len(rows):.1f} fall "
            "below 0.05 by chance"
        )
    for pair in coverage:
        if pair.only_a or pair.only_b:
            yield (
                f"{pair.setting}, {pair.editor_a} and {pair.editor_b}: {pair.paired} probes of "
                f"{pair.cases} cases are paired; {pair.only_a} are only in the first, "
                f"{pair.only_b} only in the second"
            )
    for name in SETTINGS:
        first, second = _setting(a, name), _setting(b, name)
        if first != second:
            yield f"{name} differs: {_shown(first)} and {_shown(second)}"


def _setting(run: Manifest, name: str) -> object:
    """Return an option of a run; for the mode, its value as resolved with the benchmark."""
    if name == "mode" and run.mode:
        return run.mode
    return getattr(run.config, name)


def _asked(a: Manifest, b: Manifest, checkpoint: int) -> Iterator[str]:
    """Yield a note on the time at which the compared answers of a sequence were given."""
    if checkpoint:
        yield f"answers after {checkpoint} edits"
    elif any(run.config.reevaluate_at for run in (a, b)):
        yield (
            "answers directly after each case's own edits; --checkpoint N compares answers after N "
            "edits (emend report lists N)"
        )


def _shown(setting: object) -> str:
    if setting in (None, (), ""):
        return "the default"
    return str(setting)
