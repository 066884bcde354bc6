"""Blind sheets for annotators, as a page for a browser and as a table for a spreadsheet, and the key to them."""

import base64
import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from emend.agents.judging.fence import shorten
from emend.evals.judging.annotate.sampling import AnnotationItem
from emend.evals.judging.annotate.study import Study
from emend.evals.log.records import replace, write_errors
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import RunRefused
from emend.memory.escape import FORMULA, safe
from emend.memory.files import private_folder

KEY, ADJUDICATOR = "key.json", "adjudicator"
_HARMLESS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""Signs that could end the page's data or its script."""


class AnnotationKey(FrozenModel):
    """A study's items with what annotators must not see, and how they were drawn."""

    study: Study
    runs: tuple[str, ...]
    seed: int
    items: tuple[AnnotationItem, ...]


def write_sheets(folder: Path, key: AnnotationKey, annotators: int = 2) -> list[Path]:
    """Write a page and a table for each annotator, each in an order of its own, and the key; return the pages.

    Raises:
        RunRefused: the folder has sheets already, or cannot be written.
    """
    if (folder / KEY).exists():
        raise RunRefused(f"'{folder}' has sheets already, and may have labels: give another folder.")
    with write_errors(f"'{folder}'"):
        private_folder(folder, links=True)
    replace(folder / KEY, key)
    return [write_sheet(folder, f"annotator-{number}", key) for number in range(1, annotators + 1)]


def write_sheet(folder: Path, annotator: str, key: AnnotationKey) -> Path:
    """Write the page and the table of one annotator; return the page."""
    items = _shuffled(key.items, f"{key.seed} {annotator}")
    page = folder / f"{annotator}.html"
    replace(page.with_suffix(".csv"), _table(key.study, items).encode("utf-8-sig"))  # the mark is for Excel
    replace(page, _page(annotator, key.study, items).encode())
    return page


def _shuffled(items: Sequence[AnnotationItem], seed: str) -> list[AnnotationItem]:
    """The items in a random order, with those of one group together."""
    groups: dict[str, list[AnnotationItem]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    names = sorted(groups)
    Random(seed).shuffle(names)
    return [item for name in names for item in groups[name]]


def _table(study: Study, items: Sequence[AnnotationItem]) -> str:
    """The table as CSV in which no cell is a formula to a spreadsheet."""
    names = list(dict.fromkeys(name for item in items for name in item.parts))
    blanks = [""] * (len(study.questions) + 1)
    head = ["item", *names, *(question.name for question in study.questions), "comment"]
    rows = [[item.id, *("\n".join(_shown(item.parts.get(name, ()))) for name in names), *blanks] for item in items]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(
        [f"'{text}" if text.lstrip().startswith(FORMULA) else text for text in row] for row in [head, *rows]
    )
    return out.getvalue()


def _page(annotator: str, study: Study, items: Sequence[AnnotationItem]) -> str:
    """The page: its data are JSON that its own script shows as text, so that nothing in them is markup."""
    data = {
        "annotator": annotator,
        "sheet": content_id("sheet", annotator, [item.id for item in items]),
        "title": study.title,
        "instructions": study.instructions.strip(),
        "questions": [question.model_dump(include={"name", "question", "options"}) for question in study.questions],
        "items": [
            {"id": item.id, "parts": {name: _shown(texts) for name, texts in item.parts.items()}} for item in items
        ],
    }
    page = Path(__file__).with_name("sheet.html").read_text(encoding="utf-8")
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = json.dumps(data, ensure_ascii=False).translate(_HARMLESS)
    return page.replace("{{HASH}}", digest).replace("{{DATA}}", text)


def _shown(texts: Sequence[str]) -> list[str]:
    """The texts as a person sees them: as long as a judge does, with control characters visible."""
    return [safe(shorten(text)) for text in texts]
