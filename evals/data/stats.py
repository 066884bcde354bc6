"""The benchmarks' own tables of statistics (`stats.toml`), counted from the local files."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from emend.evals.data.benchmarks.rows import data_folder, read_rows
from emend.evals.data.check import SHAPES
from emend.evals.data.download import source_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import MissingData

Counts = dict[str, float | None]
"""Figure of each quantity."""


class DataFigure(FrozenModel):
    """Cell with the files' figure and the paper's; None where there is no file, or nothing is printed."""

    row: str
    column: str
    here: float | None = None
    paper: float | None = None
    digits: int = 0
    """Decimals that the paper prints."""

    @property
    def agrees(self) -> bool | None:
        """True if both are equal as printed; None if one is missing."""
        if self.here is None or self.paper is None:
            return None
        return self.text(self.here) == self.text(self.paper)

    def text(self, value: float | None) -> str:
        """Format a value as the paper prints it."""
        return "-" if value is None else f"{value:,.{self.digits}f}"


class DataTable(FrozenModel):
    """Table with rows and columns in the paper's order, and notes for the comparison."""

    title: str
    figures: tuple[DataFigure, ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in order."""
        return list(dict.fromkeys(figure.row for figure in self.figures))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(dict.fromkeys(figure.column for figure in self.figures))

    def cell(self, row: str, column: str) -> DataFigure:
        """The figure of a cell."""
        return next(f for f in self.figures if (f.row, f.column) == (row, column))

    def plain(self) -> Iterator[dict[str, object]]:
        """Yield a JSON row per figure."""
        for figure in self.figures:
            yield {"table": self.title, **figure.model_dump(exclude={"digits"}), "agrees": figure.agrees}


def stats(name: str, data: Path | None = None) -> DataTable:
    """The paper's table of its data, with the same counts of the files in the folder.

    Raises:
        BadSettings: no such benchmark.
        MissingData: none of its files is in the folder.
        BadData: a record is malformed; `emend data check` names all.
    """
    source_of(name)
    folder = data_folder(name, data)
    present = {shape.names[0]: (file, shape.row) for shape in SHAPES[name] if (file := shape.find(folder))}
    if not present:
        what = f"'{folder}' holds no file of {name}" if folder.is_dir() else f"no folder '{folder}'"
        raise MissingData(f"{what}. Get them with: emend data pull {name}.")
    rows = {first: read_rows(folder / file, row) for first, (file, row) in present.items()}
    table = tomllib.loads(Path(__file__).with_name("stats.toml").read_text("utf-8"))[name]
    figures, notes = [], []
    for entry in table["entries"]:
        whole = all(file in rows for file in entry["files"])
        here = COUNTS[name]([row for file in entry["files"] for row in rows[file]]) if whole else {}
        printed = entry.get("printed", {})
        for quantity in table["quantities"]:
            place = (quantity, entry["name"]) if "transposed" in table else (entry["name"], quantity)
            digits = table.get("digits", {}).get(quantity, 0)
            value, paper = here.get(quantity), printed.get(quantity)
            figures.append(DataFigure(row=place[0], column=place[1], here=value, paper=paper, digits=digits))
            if quantity == table["counted"] and value and paper and value < paper:
                notes.append(f"{entry['name']}: a part, {value:,} of {paper:,} {table.get('unit', 'records')}")
    return DataTable(title=table["title"], figures=tuple(figures), notes=(*notes, *table.get("notes", ())))


def _akew(rows: Sequence[Any]) -> Counts:
    edits = [edit for row in rows for edit in row.requested_rewrite]
    triplets = [triplet for edit in edits for triplet in edit.triplets]
    return {
        "edits": len(edits),
        "multi-hop": sum(row.hops > 0 for row in rows) or None,
        "fact": _mean_words(edit.fact for edit in edits),
        "text": _mean_words(edit.fact_new_uns for edit in edits),
        "triplet": _mean_words(triplet.text for triplet in triplets),
        "per edit": fmean(len(edit.unsfact_triplets_GPT) for edit in edits) if edits else None,
    }


def _mean_words(texts: Iterable[str]) -> float | None:
    lengths = [len(text.split()) for text in texts]
    return fmean(lengths) if lengths else None


def _elken(rows: Sequence[Any]) -> Counts:
    return {
        "event edits": sum(bool(row.tendency.qas or row.tendency.local_qas) for row in rows),
        "facts, in scope": sum(len(row.fact.qas) for row in rows),
        "facts, out of scope": sum(len(row.fact.local_qas) for row in rows),
        "tendency, in scope": sum(len(row.tendency.qas) for row in rows),
        "tendency, out of scope": sum(len(row.tendency.local_qas) for row in rows),
    }


def _recoe(rows: Sequence[Any]) -> Counts:
    return {
        "examples": len(rows),
        "atomic facts": sum(len(fact.atomic_facts) for row in rows for fact in row.facts),
        "before the change": sum(len(fact.atomic_facts) for row in rows for fact in row.known),
    }


def _docter(rows: Sequence[Any]) -> Counts:
    """`prompts` are a record's query with its paraphrases, or all its queries; None for documents."""
    if any(hasattr(row, "paraphrase_query") for row in rows):
        prompts = sum(1 + len(row.paraphrase_query) for row in rows)
    elif any(hasattr(row, "query") for row in rows):
        prompts = sum(len(row.query) for row in rows)
    else:
        prompts = sum(hasattr(row, "label") for row in rows)
    return {"instances": len(rows), "prompts": prompts or None}


def _mquake(rows: Sequence[Any]) -> Counts:
    edits = sum(len(row.requested_rewrite) for row in rows)
    return {"instances": len(rows), "edits": edits} | {
        f"{hops} hops": sum(row.hops == hops for row in rows) for hops in (2, 3, 4)
    }


def _counterfact(rows: Sequence[Any]) -> Counts:
    """A row of EasyEdit's form has one paraphrase and one neighbour."""
    return {
        "records": len(rows),
        "paraphrases": sum(len(getattr(row, "paraphrase_prompts", ("",))) for row in rows),
        "neighbours": sum(len(getattr(row, "neighborhood_prompts", ("",))) for row in rows),
    }


COUNTS: dict[str, Callable[[Sequence[Any]], Counts]] = {
    "akew": _akew,
    "docter": _docter,
    "elken": _elken,
    "recoe": _recoe,
    "mquake": _mquake,
    "counterfact": _counterfact,
}
