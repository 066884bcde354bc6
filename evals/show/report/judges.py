"""Tables and plots of judges: calibration, agreement, leniency and stress test."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from emend.evals.judging.annotation import AnnotationKey, AnnotationResults
from emend.evals.judging.calibration.agreement import Calibration
from emend.evals.judging.calibration.stress import Outcome, Relation, StressReport, StressRow
from emend.evals.judging.leniency import LeniencyReport
from emend.evals.metrics.agreement import Coefficient, RaterAgreement
from emend.evals.metrics.estimate import Estimate, ends_text
from emend.evals.results.aggregate.judged import describe_calibration, omission_text
from emend.evals.show.report.layout import (
    INTERVALS,
    Frame,
    bounds,
    counted,
    decimal,
    dim,
    frame,
    interval_note,
    unscored,
    without_empty,
)
from emend.evals.show.report.plots import drawing, plain
from emend.memory.escape import one_line

# Published agreement of a paper's judge with human labels, by kind.
PUBLISHED = {
    "tendency": "ELKEN's judge, gpt-4-1106-preview, on 120 answers graded by one person: Spearman "
    "0.744, Kendall 0.698, mean mark 4.34 against 4.15 (section 4.4)"
}
# Labels with more values (shares) are plotted as dots, and their table of counts is left out.
MOST_LABELS = 12
# Number of disagreements that are printed; the adjudicator's sheet has all.
SHOWN = 10
NAMES = {
    "raw": "equal labels",
    "kappa": "Cohen's kappa",
    "alpha": "Krippendorff's alpha",
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "mae": "mean absolute error",
    "base_rate": "always the most frequent label: equal labels",
    "constant_mae": "always the median label: mean absolute error",
    "mean_first": "mean label by people",
    "mean_second": "mean label by the judge",
}
# Measures that do not apply to repeats, which have no first rater.
ALONE = ("base_rate", "constant_mae", "mean_first", "mean_second")


def render_calibration(result: Calibration) -> RenderableType:
    """Render measures, counts of labels, agreement of repeats, and notes."""
    labels, cases = counted(result.labelled, "label"), counted(result.cases, "case")
    size = f"{labels} of {cases}"
    if result.unscored:
        omission = omission_text(result.unscored, result.disputed)
        size = f"{result.n} of {labels}, of {cases}; {omission}"
    title = f"{result.judge} on {result.kind}, {size}"
    parts: list[RenderableType] = [Text(one_line(title), style="bold"), _measures(result)]
    if result.labels and len(result.labels) <= MOST_LABELS:
        parts += [Text("labels by people (rows) and by the judge", style="bold"), _counts(result)]
    if result.retest is not None:
        parts += [
            Text(f"agreement between {result.repeats} repeats", style="bold"),
            _measures(result.retest),
        ]
    return Group(*parts, *dim(_notes(result)))


def render_annotation(key: AnnotationKey, results: AnnotationResults) -> RenderableType:
    """Render the agreement of annotators, the labels by stratum, and the first disagreements."""
    measured = ("raw", "kappa", "alpha", "spearman", "kendall")
    pairs = frame(
        "question",
        "raters",
        *(NAMES[name].replace(" ", "\n", 1) for name in measured),
        "n",
        names=2,
    )
    for pair in results.pairs:
        cells = (_with_interval(getattr(pair, name)) for name in measured)
        pairs.add(pair.question, Text(one_line(" and ".join(pair.raters))), *cells, str(pair.n))
    shares = frame("question", "label", "of", "value", "95 %", "n", "open", names=3)
    for share in results.shares:
        names = (Text(share.label or "mean"), Text(one_line(share.stratum)))
        shares.add(
            share.question,
            *names,
            *_cells(share.value),
            str(share.value.n),
            unscored(share.value.unscored),
        )
    parts: list[RenderableType] = [Text(one_line(key.study.title), style="bold"), pairs, shares]
    if results.disagreements:
        differing = frame("item", "question", "labels", names=2)
        for disagreement in results.disagreements[:SHOWN]:
            labels = ", ".join(f"{name} {label}" for name, label in disagreement.labels.items())
            differing.add(disagreement.item, Text(disagreement.question), Text(one_line(labels)))
        parts += [Text("different labels", style="bold"), differing]
    return Group(*parts, *dim(_annotation_notes(key, results)))


def _with_interval(value: Estimate | Coefficient | None) -> Text:
    number, interval = Text("-"), Text()
    if value is not None:
        number, interval = _cells(value)
    if "-" in (number.plain, interval.plain):
        return number
    return Text(" ").join([number, interval])


def _annotation_notes(key: AnnotationKey, results: AnnotationResults) -> Iterator[str]:
    if rest := len(results.disagreements[SHOWN:]):
        yield f"and {rest} more; the adjudicator's sheet and --json list all"
    yield (
        ", ".join(f"{name} labelled {count}" for name, count in results.labelled.items())
        + f" of {len(key.items)} items"
    )
    for why in dict.fromkeys(
        pair.kappa.why for pair in results.pairs if pair.kappa is not None and pair.kappa.why
    ):
        yield f"agreement coefficients are {why}"
    yield "open: not labelled, or labels differ and no adjudicator has settled them"
    yield INTERVALS
    if key.study.published:
        yield key.study.published


def _measures(result: RaterAgreement) -> Frame:
    table = frame("", "value", "95 %", "n", "left out")
    alone = not isinstance(result, Calibration)
    for name, text in NAMES.items():
        value: Estimate | Coefficient | None = getattr(result, name)
        if value is None or (alone and name in ALONE):
            continue
        weighted = ""
        if name == "kappa" and result.spearman is not None:
            weighted = " (quadratic weights)"
        left_out = unscored(result.unscored)
        table.add_row(Text(text + weighted), *_cells(value), str(result.n), left_out)
    return without_empty(table, "left out")


def _cells(value: Estimate | Coefficient) -> tuple[Text, Text]:
    if isinstance(value, Estimate):
        number = value.mean
    else:
        number = value.value
    if number is None:
        why = "nothing was scored"
        if isinstance(value, Coefficient):
            why = value.why
        return Text("-"), Text(why, style="yellow")
    low = value.low
    # an interval of width 0 (no variation) is not shown
    if value.low == value.high:
        low = None
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
    values = (getattr(result, name) for name in NAMES)
    yield interval_note(value.low for value in values if value is not None)
    if result.kind in PUBLISHED:
        yield PUBLISHED[result.kind]
    if result.missing:
        yield f"{result.missing} items have no label and are excluded"
    for reason, count in result.reasons.items():
        yield f"{count} left out: {reason}"


def plot_calibrations(result: Sequence[Calibration], file: Path) -> None:
    """Plot human labels against the judge's: a panel per kind with counts, or dots for shares.

    Raises:
        MissingExtra, BadSettings: see `require_plotting` of `plots`.
    """
    with drawing(file, 4.2 * len(result), 4.0) as figure:
        for panel, item in zip(
            figure.subplots(1, len(result), squeeze=False)[0], result, strict=True
        ):
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
    name = "Spearman"
    if result.kappa is not None:
        name = "kappa"
    text = "undefined"
    if chosen is not None and chosen.value is not None:
        text = f"{chosen.value:.2f}{ends_text(chosen.low, chosen.high, '.2f')}"
    return f"{result.kind}, {result.judge}\nn={result.n}, {name} {text}"


def _squares(panel: Any, result: Calibration) -> None:
    """Draw the counts of labels as a heat map with numbers."""
    names, size = _label_names(result), len(result.labels)
    panel.imshow(result.confusion, cmap="Blues", vmin=0)
    most = max(max(row) for row in result.confusion)
    for row, counts in enumerate(result.confusion):
        for column, count in enumerate(counts):
            panel.text(
                column,
                row,
                str(count),
                ha="center",
                va="center",
                color="white" if 2 * count > most else "black",
            )
    panel.set_xticks(range(size), names)
    panel.set_yticks(range(size), names)


def _dots(panel: Any, result: Calibration) -> None:
    """Draw pairs of labels as dots, whose size is the number of pairs."""
    pairs = [
        (result.labels[column], result.labels[row], count)
        for row, counts in enumerate(result.confusion)
        for column, count in enumerate(counts)
        if count
    ]
    across, up, counts = zip(*pairs, strict=True)
    panel.plot([0, 1], [0, 1], color="#777777", linewidth=0.7, linestyle=":")
    panel.scatter(
        across, up, s=[18 * count for count in counts], color="#4477aa", alpha=0.6, linewidths=0
    )
    panel.set_xlim(-0.05, 1.05)
    panel.set_ylim(-0.05, 1.05)


def render_leniency(report: LeniencyReport) -> RenderableType:
    """Render shares of right and wrong answers that a judge accepts, examples, and agreement with
    people.
    """
    title = f"{report.judge}: accepted answers, the wrong ones written by {report.writer}"
    table = frame(
        "answers", "accepted %", "95 %", "disputed", "left %", "95 %", "n", "unscored", names=1
    )
    for row in report.rows:
        shares = [_cells(share.scaled(100)) for share in (row.accepted, row.left)]
        counts = (str(row.accepted.n), unscored(row.accepted.unscored))
        table.add(row.kind, *shares[0], str(row.disputed), *shares[1], *counts)
    return Group(Text(one_line(title), style="bold"), table, *dim(_leniency_notes(report)))


def _leniency_notes(report: LeniencyReport) -> Iterator[str]:
    yield (
        "accepted: by the judge alone; left: after settling disputes; Wilson's interval over "
        "questions"
    )
    yield f"agreement with people: {describe_calibration(report.calibration)}"
    for row in report.rows:
        for reason, count in row.reasons.items():
            yield f"{row.kind}, {count} unscored: {one_line(reason, 160)}"
    for example in report.examples[:SHOWN]:
        parts = (example.question, f"gold {example.gold}", f"accepted {example.answer}")
        yield f"{example.kind}: " + "; ".join(one_line(part, 80) for part in parts)


STYLES: dict[Outcome, str] = {"holds": "green", "broken": "bold red", "unscored": "yellow"}


def show_stress(report: StressReport, console: Console) -> None:
    """Print a stress test: a table of texts and a table of relations, for all kinds of judges."""
    kinds = list(dict.fromkeys(row.kind for row in report.rows))
    outputs = {row.kind: row.output for row in report.rows}
    console.print(
        Text(one_line(f"judge {report.judge}: texts that try to influence it"), style="bold")
    )
    table = frame("text", *[f"{kind}\n{outputs[kind].replace('_', ' ')}" for kind in kinds])
    values = {(row.variant, row.kind): row for row in report.rows}
    for variant, about in dict.fromkeys((row.variant, row.about) for row in report.rows):
        cells = [_cell(values.get((variant, kind))) for kind in kinds]
        table.add_row(Text(variant).append(f"  {about}", style="dim"), *cells)
    console.print(table)
    console.print(Text("expected", style="bold"))
    rules = frame("relation", *kinds)
    notes = {
        (_name(item), item.kind): Text(item.outcome, style=STYLES[item.outcome])
        for item in report.relations
    }
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
    notes.append(
        "about: a difference of at most 1 in grades, 0.5 in shares, and 0 in yes (1) or no (0)"
    )
    reasons = Counter(row.why for row in report.rows if row.value is None)
    notes += [
        f"unscored {count} times: {one_line(why, 160)}" for why, count in reasons.most_common(5)
    ]
    return notes
