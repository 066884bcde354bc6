"""Construction items as a label source for human review."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emend.evals.construction.items.line import ItemLine, read_item_lines
from emend.evals.construction.items.manifest import Construction
from emend.evals.judging.study import (
    AnnotationItem,
    Labels,
    LabelSource,
    Parts,
    Study,
    annotation_item,
)

# Kind of the labelled objects.
ITEM = "item"


def _built_items(folder: Path, study: Study) -> Iterator[tuple[Labels, list[AnnotationItem]]]:
    """Yield the items that passed the filters, with their source line and written texts."""
    construction = Construction.read(folder)
    labels = {"kind": ITEM, "model": construction.config.model, "setting": construction.kind}
    for line in read_item_lines(folder):
        if line.verdict == "kept":
            yield labels, [annotation_item(item_parts(line), line.case, line.case)]


def item_parts(line: ItemLine) -> Parts:
    """Return the human-readable line of an item and the texts that were written for it."""
    texts = {name: _written(value) for name, value in (line.result or {}).items()}
    parts: Parts = {"about": (line.text,)}
    parts |= {name: (text,) for name, text in texts.items() if text}
    return parts


def _written(value: Any) -> str:
    """Return a text, a list of texts or a mapping of names to texts as lines; empty for other
    values.
    """
    if isinstance(value, dict):
        value = [f"{name}: {text}" for name, text in value.items() if isinstance(text, str)]
    if isinstance(value, list):
        return "\n".join(value) if all(isinstance(text, str) for text in value) else ""
    return value if isinstance(value, str) else ""


BUILT_ITEMS = LabelSource(
    _built_items, "built item: give the folder `run` of a benchmark built by emend build."
)
