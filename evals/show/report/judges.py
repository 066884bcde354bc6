"""Tables and plots of judges: calibration, agreement, and the stress test."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from emend.evals.judging.annotation import AnnotationKey, AnnotationResults
from emend.evals.judging.calibration import Calibration, Outcome, Relation, StressReport, StressRow
from emend.evals.metrics.agreement import Coefficient, RaterAgreement
from emend.evals.metrics.estimate import Estimate
from emend.evals.show.report.layout import INTERVALS, Frame, bounds, decimal, dim, frame, unscored
from emend.evals.show.report.plots import drawing, plain
from emend.memory.escape import one_line

PUBLISHED = {
    "tendency": "ELKEN's judge, gpt-4-1106-preview, on 120 answers that one person marked: Spearman 0.744, Kendall "
    "0.698, mean mark 4.34 against 4.15 (section 4.4)"
}
"""Published agreement of a paper's own judge with people, by kind."""
MOST_LABELS = 12
"""Shares have many values; they are drawn as dots, and their table of counts is left out."""
SHOWN = 10
"""Disagreements in the terminal; the sheet to settle them has all."""
NAMES = {
    "raw": "equal labels",
    "kappa": "Cohen's kappa",
    "alpha": "Krippendorff's alpha",
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "mae": "mean absolute error",
    "base_rate": "always the most frequent label: equal labels",
    "constant_mae": "always the median label: mean absolute error",
    "mean_first": "mean label of people",
    "mean_second": "mean label of the judge",
}
ALONE = ("base_rate", "constant_mae", "mean_first", "mean_second")
"""Does not apply to repeats, which have no first rater."""


def render_calibration(result: Calibration) -> RenderableType:
    """The measures, the counts of labels, the repeats, and what must be known."""
    title = f"{result.judge} on {result.kind}, {result.labelled} labels of {result.cases} cases"
    parts: list[RenderableType] = [Text(one_line(title), style="bold"), _measures(result)]
    if result.labels and len(result.labels) <= MOST_LABELS:
        parts += [Text("labels of people (rows) and of the judge", style="bold"), _counts(result)]
    if result.retest is not None:
        parts += [
            Text(f"agreement of {result.repeats} repeats with each other", style="bold"),
            _measures(result.retest),
        ]
    return Group(*parts, *dim(_notes(result)))


def render_annotation(key: AnnotationKey, results: AnnotationResults) -> RenderableType:
    """The annotators' agreement, the labels of each stratum, and the first disagreements."""
    measured = ("raw", "kappa", "alpha", "spearman", "kendall")
    pairs = frame("question", "raters", *(NAMES[name].replace(" ", "\n", 1) for name in measured), "n", names=2)
    for pair in results.pairs:
        cells = (_with_interval(getattr(pair, name)) for name in measured)
        pairs.add(pair.question, Text(one_line(" and ".join(pair.raters))), *cells, str(pair.n))
    shares = frame("question", "label", "of", "value", "95 %", "n", "open", names=3)
    for share in results.shares:
        names = (Text(share.label or "mean"), Text(one_line(share.stratum)))
        shares.add(share.question, *names, *_cells(share.value), str(share.value.n), unscored(share.value.unscored))
    parts: list[RenderableType] = [Text(one_line(key.study.title), style="bold"), pairs, shares]
    if results.disagreements:
        differing = frame("item", "question", "labels", names=2)
        for each in results.disagreements[:SHOWN]:
            labels = ", ".join(f"{name} {label}" for name, label in each.labels.items())
            differing.add(each.item, Text(each.question), Text(one_line(labels)))
        parts += [Text("different labels", style="bold"), differing]
    return Group(*parts, *dim(_annotation_notes(key, results)))


def _with_interval(value: Estimate | Coefficient | None) -> Text:
    number, interval = _cells(value) if value is not None else (Text("-"), Text())
    return number if "-" in (number.plain, interval.plain) else Text(" ").join([number, interval])


def _annotation_notes(key: AnnotationKey, results: AnnotationResults) -> Iterator[str]:
    if rest := len(results.disagreements[SHOWN:]):
        yield f"and {rest} more; all are in the sheet of the adjudicator, and with --json"
    yield (
        ", ".join(f"{name} labelled {count}" for name, count in results.labelled.items())
        + f" of {len(key.items)} items"
    )
    for why in dict.fromkeys(pair.kappa.why for pair in results.pairs if pair.kappa is not None and pair.kappa.why):
        yield f"kappa and the like are {why}"
    yield "open: nobody labelled it, or labels differ and no adjudicator has settled it"
    yield INTERVALS
    if key.study.published:
        yield key.study.published


def _measures(result: RaterAgreement) -> Frame:
    table = frame("", "value", "95 %", "n")
    alone = not isinstance(result, Calibration)
    for name, text in NAMES.items():
        value: Estimate | Coefficient | None = getattr(result, name)
        if value is None or (alone and name in ALONE):
            continue
        weighted = " (quadratic weights)" if name == "kappa" and result.spearman is not None else ""
        table.add_row(Text(text + weighted), *_cells(value), str(result.n))
    return table


def _cells(value: Estimate | Coefficient) -> tuple[Text, Text]:
    number = value.mean if isinstance(value, Estimate) else value.value
    if number is None:
        why = value.why if isinstance(value, Coefficient) else "nothing was scored"
        return Text("-"), Text(why, style="yellow")
    low = None if value.low == value.high else value.low  # where nothing varies, no interval is known
    return Text(decimal(number, 2)), bounds(low, value.high, 2)


def _counts(result: Calibration) -> Frame:
    names = _label_names(result)
    table = frame("", *names)
    for name, row in zip(names, result.confusion, strict=True):
        table.add_row(name, *map(str, row))
    return table


def _label_names(result: Calibration) -> list[str]:
    if result.scale == "yes or no":
        return ["yes" if label else "no" for label in result.labels]
    return [f"{label:g}" for label in result.labels]


def _notes(result: Calibration) -> Iterator[str]:
    yield INTERVALS
    if result.kind in PUBLISHED:
        yield PUBLISHED[result.kind]
    if result.missing:
        yield f"{result.missing} items have no label and are left out"
    for reason, count in result.reasons.items():
        yield f"{count} unscored: {reason}"


def plot_calibrations(result: Sequence[Calibration], file: Path) -> None:
    """A panel per kind: counts of labels, people's against the judge's; shares as dots.

    Raises:
        MissingExtra, BadSettings: as `plotting.require_plotting`.
    """
    with drawing(file, 4.2 * len(result), 4.0) as figure:
        for panel, item in zip(figure.subplots(1, len(result), squeeze=False)[0], result, strict=True):
            if not item.n:
                panel.set_axis_off()
            elif len(item.labels) > MOST_LABELS or item.scale == "share":
                _dots(panel, item)
            else:
                _squares(panel, item)
            panel.set_title(plain(_headline(item)))
            panel.set_xlabel(f"the judge, {item.scale}")
            panel.set_ylabel(f"people, {item.scale}")


def _headline(result: Calibration) -> str:
    chosen = result.kappa or result.spearman
    name = "kappa" if result.kappa is not None else "Spearman"
    text = "undefined" if chosen is None or chosen.value is None else f"{chosen.value:.2f}"
    if chosen is not None and chosen.low is not None and chosen.high is not None:
        text += f" [{chosen.low:.2f}, {chosen.high:.2f}]"
    return f"{result.kind}, {result.judge}\nn={result.n}, {name} {text}"


def _squares(panel: Any, result: Calibration) -> None:
    """Counts as a grid of squares, each with its number."""
    names, size = _label_names(result), len(result.labels)
    panel.imshow(result.confusion, cmap="Blues", vmin=0)
    most = max(max(row) for row in result.confusion)
    for row, counts in enumerate(result.confusion):
        for column, count in enumerate(counts):
            panel.text(
                column, row, str(count), ha="center", va="center", color="white" if 2 * count > most else "black"
            )
    panel.set_xticks(range(size), names)
    panel.set_yticks(range(size), names)


def _dots(panel: Any, result: Calibration) -> None:
    """Pairs of labels; the larger a dot, the more pairs."""
    pairs = [
        (result.labels[column], result.labels[row], count)
        for row, counts in enumerate(result.confusion)
        for column, count in enumerate(counts)
        if count
    ]
    across, up, counts = zip(*pairs, strict=True)
    panel.plot([0, 1], [0, 1], color="#777777", linewidth=0.7, linestyle=":")
    panel.scatter(across, up, s=[18 * count for count in counts], color="#4477aa", alpha=0.6, linewidths=0)
    panel.set_xlim(-0.05, 1.05)
    panel.set_ylim(-0.05, 1.05)


STYLES: dict[Outcome, str] = {"holds": "green", "broken": "bold red", "unscored": "yellow"}


def show_stress(report: StressReport, console: Console) -> None:
    """Print it, one table of texts and one of relations over all kinds of judges."""
    kinds = list(dict.fromkeys(row.kind for row in report.rows))
    outputs = {row.kind: row.output for row in report.rows}
    console.print(Text(one_line(f"judge {report.judge}: texts that want to speak for it"), style="bold"))
    table = frame("text", *[f"{kind}\n{outputs[kind].replace('_', ' ')}" for kind in kinds])
    values = {(row.variant, row.kind): row for row in report.rows}
    for variant, about in dict.fromkeys((row.variant, row.about) for row in report.rows):
        cells = [_cell(values.get((variant, kind))) for kind in kinds]
        table.add_row(Text(variant).append(f"  {about}", style="dim"), *cells)
    console.print(table)
    console.print(Text("what must hold", style="bold"))
    rules = frame("relation", *kinds)
    notes = {(_name(item), item.kind): Text(item.outcome, style=STYLES[item.outcome]) for item in report.relations}
    for name in dict.fromkeys(map(_name, report.relations)):
        rules.add_row(Text(name), *[notes.get((name, kind), Text()) for kind in kinds])
    console.print(rules)
    for note in _stress_notes(report):
        console.print(Text(note, style="dim"))


def _name(relation: Relation) -> str:
    sign = {"about": "is about"}.get(relation.op, relation.op)
    return f"{relation.left} {sign} {relation.right}"


def _cell(row: StressRow | None) -> Text:
    if row is None or row.value is None:
        return Text("-", style="yellow")
    return Text(f"{row.value:.2f}".removesuffix("0").removesuffix(".0"))


def _stress_notes(report: StressReport) -> list[str]:
    counts = Counter(item.outcome for item in report.relations)
    notes = [", ".join(f"{outcome}: {counts[outcome]}" for outcome in STYLES)]
    notes.append("about: at most 1 apart in marks, 0.5 in shares, nothing in yes (1) or no (0)")
    reasons = Counter(row.why for row in report.rows if row.value is None)
    notes += [f"unscored {count} times: {one_line(why, 160)}" for why, count in reasons.most_common(5)]
    return notes
