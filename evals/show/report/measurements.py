"""Tables of measurements: extraction, retrieval, training and search for settings."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.text import Text

from emend.evals.measure.retrieval import DEPTH, RetrievalReport, RetrievalRow, ThresholdRow
from emend.evals.metrics.triples import ERRORS, TripleQuality
from emend.evals.results.settings_search import Metrics, Trial, TuneReport
from emend.evals.show.report.layout import (
    INTERVALS,
    Frame,
    bounds,
    decimal,
    dim,
    frame,
    interval_note,
    titled,
)
from emend.memory.escape import one_line

if TYPE_CHECKING:  # measuring retrieval must not import the training libraries
    from emend.evals.measure.training import EncoderRow, ScopeRow

# Field of each row, by heading.
EXTRACTION_FIGURES = {
    "triples per document": "per_document",
    "recall": "recall",
    "precision": "precision",
    "F1": "f1",
    "AT ambiguous": "AT",
    "IS incorrect subject": "IS",
    "IR incorrect relation": "IR",
}


class PublishedQuality(NamedTuple):
    """A row of the paper's Table 6 or 8: triples per document, other values in percent.

    `errors` is None if the paper does not report them.
    """

    name: str
    triples: float
    recall: float
    precision: float
    f1: float
    errors: tuple[float, float, float] | None = None


# DocTER, Table 6; its measure may differ in embedding and averaging, which the paper does not say.
PUBLISHED_QUALITY = {
    ("docter", "en"): (
        PublishedQuality("DocTER tools", 16.50, 57.84, 3.75, 7.04, (33.87, 42.74, 23.39)),
        PublishedQuality("DocTER LLM", 10.26, 88.79, 14.71, 25.24, (12.88, 31.06, 56.06)),
    ),
    ("docter", "zh"): (
        PublishedQuality("DocTER LLM", 3.58, 56.50, 23.41, 33.12, (11.43, 37.14, 51.42)),
    ),
}


def render_extraction(
    name: str, quality: TripleQuality, embedding: str, published: tuple[PublishedQuality, ...] = ()
) -> RenderableType:
    """Render a row per figure (in percent, except the number of triplets), and notes."""
    table = frame("", one_line(name, 20), "95 %", "n", *(row.name for row in published))
    for label, figure in EXTRACTION_FIGURES.items():
        estimate = quality.errors[figure] if figure in ERRORS else getattr(quality, figure)
        digits, scale = (2, 1) if figure == "per_document" else (1, 100)
        value = estimate.scaled(scale)
        figures = decimal(value.mean, digits), bounds(value.low, value.high, digits), str(value.n)
        table.add(
            label, *figures, *dim(decimal(_printed(row, figure), digits) for row in published)
        )
    return Group(table, *dim(extraction_notes(quality, embedding)))


def _printed(row: PublishedQuality, figure: str) -> float | None:
    """Return the published value of a figure."""
    if figure in ERRORS:
        return row.errors[ERRORS.index(figure)] if row.errors else None
    value: float = getattr(row, {"per_document": "triples"}.get(figure, figure))
    return value


def extraction_notes(quality: TripleQuality, embedding: str) -> Iterator[str]:
    """Yield notes that explain the numbers."""
    yield "percent; a triplet matches the gold fact at a cosine similarity of at least 0.8"
    yield f"[95 % intervals, bootstrap over documents]; embedding {one_line(embedding)}"
    if embedding.startswith("lexical"):
        yield "a lexical embedding compares wording, not meaning, and misses paraphrased matches"
    yield f"AT, IS, IR: among triplets without a match, classified by {one_line(quality.sorted_by)}"
    for reason, count in quality.reasons.items():
        yield f"{count} unscored: {one_line(reason, 160)}"


RETRIEVAL_COLUMNS = ("kind", "strategy", "n", "hit@1", "95 %", "hit@5", "MRR", "false hits", "ms")
# Width of a console from which intervals are shown beside their figures instead of below.
WIDE_RETRIEVAL = 100


def render_retrieval(report: RetrievalReport, console: Console) -> RenderableType:
    """Render the table in percent (MRR in 0..1) and its notes.

    In a narrow console, intervals are below their figures.
    """
    narrow = console.width < WIDE_RETRIEVAL
    title = one_line(
        f"{report.benchmark}, {report.setting}: {report.edits} edits, {report.entries} entries"
    )
    table = frame(
        *_heads([name for name in RETRIEVAL_COLUMNS if not (narrow and name == "95 %")], narrow),
        names=2,
    )
    for row in report.rows:
        table.add(row.kind, *_narrowed(list(_cells(row)), narrow))
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if report.thresholds:
        notes = f"thresholds that keep {100 * report.keep:g} % of the correct first hits"
        parts += [Text(notes, style="bold"), _threshold_table(report, narrow)]
    return Group(*parts, *dim(retrieval_notes(report)))


def _heads(names: list[str], narrow: bool) -> list[str]:
    """Return the headings; in a narrow console, each word is in its own line."""
    return [name.replace(" ", "\n") if narrow and name != "95 %" else name for name in names]


def _narrowed(cells: list[Text], narrow: bool) -> list[Text]:
    """Return the cells; in a narrow console, the interval is moved below its figure."""
    if not narrow:
        return cells
    strategy, n, hit, interval, *rest = cells
    return [strategy, n, hit if interval.plain == "-" else Text("\n").join([hit, interval]), *rest]


def _threshold_table(report: RetrievalReport, narrow: bool) -> Frame:
    """Return the table of calibrated thresholds and their false hits."""
    table = frame(
        *_heads(["strategy", "by", "kind", "least", "n", "false hits", "95 %"], narrow), names=3
    )
    for row in report.thresholds:
        table.add_row(*_threshold_cells(row))
    return table


def _threshold_cells(row: ThresholdRow) -> Iterator[Text]:
    yield from (
        Text(one_line(text))
        for text in (row.strategy, row.by, row.kind, _least(row.least), str(row.n))
    )
    yield Text(_percent(row.false_hits))
    yield bounds(row.low, row.high, 1, scale=100)


def _least(value: float) -> str:
    """Format a threshold with 6 digits, rounded down.

    So as a setting, it keeps at least the hits that were measured.
    """
    notes = Decimal(value)
    digits = 5 - notes.adjusted() if value else 5
    return f"{float(notes.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)):.6g}"


def retrieval_notes(report: RetrievalReport) -> list[str]:
    """Return notes that explain the numbers."""
    intervals = interval_note((row.low for row in report.rows), note=f"[{INTERVALS}]")
    notes = [
        f"embedding {one_line(report.embedding)}; {intervals}; MRR over {DEPTH} entries",
        "ms: mean time of a search, without embedding",
    ]
    notes += [f"{name} returned hits for all probes out of scope" for name in _unbounded(report)]
    if report.skipped:
        notes.append(f"{report.skipped} probes have no known relevant edit and are excluded")
    return [*notes, *map(one_line, report.notes)]


def _unbounded(report: RetrievalReport) -> Iterator[str]:
    """Yield the strategies that returned something for every out-of-scope probe."""
    for name in dict.fromkeys(row.strategy for row in report.rows):
        rates = [
            row.false_hits
            for row in report.rows
            if row.strategy == name and row.false_hits is not None
        ]
        if rates and min(rates) == 1:
            yield one_line(name)


def _cells(row: RetrievalRow) -> Iterator[Text]:
    yield Text(one_line(row.strategy))
    yield Text(str(row.n))
    yield Text(_percent(row.hit_at_1 if row.in_scope else None))
    yield bounds(row.low, row.high, 1, scale=100) if row.in_scope else Text("-", "dim")
    yield Text(_percent(row.hit_at_5 if row.in_scope else None))
    yield Text(f"{row.mrr:.3f}" if row.in_scope else "-")
    yield Text(_percent(row.false_hits))
    yield Text(f"{row.ms:.2f}")


def _percent(share: float | None) -> str:
    return decimal(None if share is None else 100 * share, 1)


SCOPE_SPLITS = {"train": "trained on", "check": "checked on"}


def show_scope(rows: Sequence["ScopeRow"], out: Path, console: Console) -> None:
    """Print the accuracy on each kind of question, and how to use the classifier."""
    table = frame("questions", "scope", "n", "edits", "accuracy", "", names=2)
    for row in rows:
        figures = _with_interval(row.accuracy, row.low, row.high)
        table.add_row(SCOPE_SPLITS[row.split], row.scope, str(row.n), str(row.texts), *figures)
    console.print(titled("accuracy, in percent [95 % interval]", table))
    console.print(
        Text(
            "Training questions are classified by weights that were trained without them "
            "(cross-validation).",
            style="dim",
        )
    )
    console.print(Text(f"\nThe classifier is in {one_line(str(out))}. Next:"))
    console.print(
        Text(f"  emend run ... --editor serac --set serac.scope={one_line(str(out))}"),
        soft_wrap=True,
    )


def show_encoder(rows: Sequence["EncoderRow"], embedding: str, out: Path, console: Console) -> None:
    """Print hit@1 before and after training, and how to use the adapter."""
    table = frame("questions", "encoder", "n", "edits", "hit@1", "", names=2)
    for row in sorted(rows, key=lambda row: (row.split == "check", row.encoder == "after")):
        table.add_row(
            SCOPE_SPLITS[row.split],
            row.encoder,
            str(row.n),
            str(row.texts),
            *_with_interval(row.hit, row.low, row.high),
        )
    console.print(titled("hit@1, in percent [95 % interval]", table))
    if any(row.split == "train" for row in rows):
        console.print(
            Text(
                "After training, only other questions than the training questions measure quality.",
                style="dim",
            )
        )
    spec = "minilm" if embedding == "auto" else embedding
    console.print(Text(f"\nThe adapter is in {one_line(str(out))}. Next:"))
    console.print(
        Text(f"  emend retrieval ... --embedding {one_line(f'{spec}+{out}')}"), soft_wrap=True
    )


def _with_interval(mean: float | None, low: float | None, high: float | None) -> tuple[str, Text]:
    interval = "" if low is None or high is None else f"[{100 * low:.0f}, {100 * high:.0f}]"
    return "-" if mean is None else f"{100 * mean:.1f}", Text(interval)


def show_tuning(tuned: TuneReport, out: Path, console: Console) -> None:
    """Print metrics of default and tuned settings with intervals, and how to use the latter."""
    table = frame("metric", "defaults", "", "tuned", "", "n")
    for before, after in zip(tuned.default.metrics, tuned.tuned.metrics, strict=False):
        table.add_row(before.metric, *_estimate(before), *_estimate(after), str(after.n))
    table.add_row("perplexity, x unedited", *_ratio(tuned.default), *_ratio(tuned.tuned), "")
    scores = (decimal(trial.score, 1) for trial in (tuned.default, tuned.tuned))
    table.add_row(
        "score", *(cell for score in scores for cell in (score, "")), str(tuned.tuned.facts)
    )
    console.print(titled(f"{tuned.editor} on facts not used for tuning [95 % interval]", table))
    used = ", ".join(f"{name}={value}" for name, value in tuned.settings.items()) or "the defaults"
    console.print(Text(one_line(f"Best on the tuning facts: {used}")), soft_wrap=True)
    if problems := list(dict.fromkeys(trial.problem for trial in tuned.trials if trial.problem)):
        console.print(
            Text(one_line(f"Some settings are invalid: {problems[0]}"), style="dim"),
            soft_wrap=True,
        )
    console.print(Text(f"\nThe settings are in {one_line(str(out))}. Next:"))
    command = f"  emend run ... --editor {tuned.editor} --set {tuned.editor}=@{one_line(str(out))}"
    console.print(Text(command), soft_wrap=True)


def _estimate(metrics: Metrics) -> tuple[str, Text]:
    bounds = metrics.low, metrics.high
    interval = "" if None in bounds else f"[{decimal(metrics.low, 1)}, {decimal(metrics.high, 1)}]"
    return decimal(metrics.mean, 1), Text(interval)


def _ratio(trial: Trial) -> tuple[str, str]:
    return ("-" if trial.perplexity is None else f"{trial.perplexity:.3g}"), ""
