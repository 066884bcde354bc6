"""The table of `emend extract`: triple quality, beside the figures that DocTER printed."""

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Group, RenderableType

from emend.evals.metrics.triples import ERRORS, TripleQuality
from emend.evals.show.report.tables.layout import bounds, decimal, dim, frame
from emend.memory.escape import one_line

FIGURES = {
    "triples per document": "per_document",
    "recall": "recall",
    "precision": "precision",
    "F1": "f1",
    "AT ambiguous": "AT",
    "IS incorrect subject": "IS",
    "IR incorrect relation": "IR",
}
"""Heading of each row, and the field that it shows."""


class PublishedQuality(NamedTuple):
    """A row of the paper's Table 6 or 8: triples per document, then percent; None where it is not given."""

    name: str
    triples: float
    recall: float
    precision: float
    f1: float
    errors: tuple[float, float, float] | None = None


PUBLISHED = {
    ("docter", "en"): (
        PublishedQuality("DocTER tools", 16.50, 57.84, 3.75, 7.04, (33.87, 42.74, 23.39)),
        PublishedQuality("DocTER LLM", 10.26, 88.79, 14.71, 25.24, (12.88, 31.06, 56.06)),
    ),
    ("docter", "zh"): (PublishedQuality("DocTER LLM", 3.58, 56.50, 23.41, 33.12, (11.43, 37.14, 51.42)),),
}
"""DocTER, Table 6; its measure may differ in embedding and averaging, which the paper does not say."""


def render_extraction(
    name: str, quality: TripleQuality, embedding: str, published: tuple[PublishedQuality, ...] = ()
) -> RenderableType:
    """A row per figure, in percent but for the number of triplets, and what must be known to read them."""
    table = frame("", one_line(name, 20), "95 %", "n", *(row.name for row in published))
    for label, figure in FIGURES.items():
        estimate = quality.errors[figure] if figure in ERRORS else getattr(quality, figure)
        digits, scale = (2, 1) if figure == "per_document" else (1, 100)
        value = estimate.scaled(scale)
        figures = decimal(value.mean, digits), bounds(value.low, value.high, digits), str(value.n)
        table.add(label, *figures, *dim(decimal(_printed(row, figure), digits) for row in published))
    return Group(table, *dim(extraction_notes(quality, embedding)))


def _printed(row: PublishedQuality, figure: str) -> float | None:
    """Published value of a figure."""
    if figure in ERRORS:
        return row.errors[ERRORS.index(figure)] if row.errors else None
    value: float = getattr(row, {"per_document": "triples"}.get(figure, figure))
    return value


def extraction_notes(quality: TripleQuality, embedding: str) -> Iterator[str]:
    """Notes that explain the numbers."""
    yield "percent; a triplet matches at a cosine of 0.8 or more to the gold fact"
    yield f"[95 % intervals, bootstrap over documents]; embedding {one_line(embedding)}"
    if embedding.startswith("lexical"):
        yield "a lexical embedding sees wording, not meaning: matches in other words are missed"
    yield f"AT, IS, IR: of the triplets without a match, sorted by {one_line(quality.sorted_by)}"
    for reason, count in quality.reasons.items():
        yield f"{count} unscored: {one_line(reason, 160)}"
