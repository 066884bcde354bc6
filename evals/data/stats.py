"""The benchmarks' own tables of statistics, counted from the local files."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from emend.evals.benchmarks.files import data_folder, read_rows
from emend.evals.data.shapes import Shape, shapes_of
from emend.evals.data.sources import source_of
from emend.evals.data.tables import DataFigure, DataTable, part
from emend.memory.errors import MissingData

Rows = dict[str, list[Any]]
"""Rows of each file in the folder, by the first of its names."""


def stats(name: str, data: Path | None = None) -> list[DataTable]:
    """The paper's table of its data, with the same counts of the files in the folder.

    Raises:
        BadSettings: no such benchmark.
        MissingData: none of its files is in the folder.
        BadData: a record is malformed; `emend data check` names all.
    """
    source_of(name)
    folder = data_folder(name, data)
    shapes = shapes_of(name)
    rows = {shape.names[0]: _read(shape, folder) for shape in shapes if shape.find(folder)}
    if not rows:
        what = f"'{folder}' holds no file of {name}" if folder.is_dir() else f"no folder '{folder}'"
        raise MissingData(f"{what}. Get them with: emend data pull {name}.")
    return TABLES[name](rows)


def _read(shape: Shape, folder: Path) -> list[Any]:
    return read_rows(folder / str(shape.find(folder)), shape.row)


def _mean(values: Iterable[float]) -> float | None:
    held = list(values)
    return fmean(held) if held else None


def _words(text: str) -> int:
    return len(text.split())


AKEW_PAPER: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "CounterFact.json": ("CounterFact", (975, None, 6.6, 73.9, 9.8, 6.2)),
    "MQuAKE-CF.json": ("MQuAKE-CF", (436, 354, 9.0, 76.3, 10.1, 6.2)),
    "WikiUpdate.json": ("WikiUpdate", (1067, None, 10.9, 198.6, 10.8, 14.4)),
}
AKEW_COLUMNS = ("edits", "multi-hop", "fact", "text", "triplet", "per edit")


def akew(rows: Rows) -> list[DataTable]:
    """AKEW, Table 5: edits, multi-hop questions, mean lengths in words, and triplets per edit."""
    figures, notes = [], []
    for file, (name, printed) in AKEW_PAPER.items():
        held = rows.get(file)
        counted = _akew_counts(held) if held else [None] * len(AKEW_COLUMNS)
        for place, column in enumerate(AKEW_COLUMNS):
            digits = 0 if place < 2 else 1
            figures.append(
                DataFigure(row=name, column=column, here=counted[place], paper=printed[place], digits=digits)
            )
        notes += part(name, int(counted[0] or 0), int(printed[0] or 0), "edits") if held else []
    notes.append(
        "fact, text, triplet: mean length in words, split at white space; the paper does not say how it counts"
    )
    notes.append("per edit: extracted triplets")
    return [DataTable(title="AKEW, Table 5", figures=tuple(figures), notes=tuple(notes))]


def _akew_counts(rows: Sequence[Any]) -> list[float | None]:
    edits = [edit for row in rows for edit in row.requested_rewrite]
    triplets = [triplet for edit in edits for triplet in edit.triplets]
    return [
        len(edits),
        sum(row.hops > 0 for row in rows) or None,
        _mean(_words(edit.fact) for edit in edits),
        _mean(_words(edit.fact_new_uns) for edit in edits),
        _mean(_words(triplet.text) for triplet in triplets),
        _mean(len(edit.unsfact_triplets_GPT) for edit in edits),
    ]


ELKEN_PAPER = {
    "event edits": (671, 844),
    "facts, in scope": (971, 2171),
    "facts, out of scope": (1325, 1982),
    "tendency, in scope": (3889, 3968),
    "tendency, out of scope": (1353, 940),
}


def elken(rows: Rows) -> list[DataTable]:
    """ELKEN, Table 1: events and questions of both splits."""
    figures, notes = [], []
    for place, split in enumerate(("train", "test")):
        held = rows.get(f"{split}.json")
        counted = dict(zip(ELKEN_PAPER, _elken_counts(held), strict=True)) if held else {}
        for row, printed in ELKEN_PAPER.items():
            figures.append(DataFigure(row=row, column=split, here=counted.get(row), paper=printed[place]))
        notes += part(f"{split}.json", int(counted.get("event edits", 0)), ELKEN_PAPER["event edits"][place])
        if held:
            notes.append(f"{split}.json has {len(held):,} events; the paper counts those with a tendency question")
    return [DataTable(title="ELKEN, Table 1", figures=tuple(figures), notes=tuple(notes))]


def _elken_counts(rows: Sequence[Any]) -> list[int]:
    return [
        sum(bool(row.tendency.qas or row.tendency.local_qas) for row in rows),
        sum(len(row.fact.qas) for row in rows),
        sum(len(row.fact.local_qas) for row in rows),
        sum(len(row.tendency.qas) for row in rows),
        sum(len(row.tendency.local_qas) for row in rows),
    ]


RECOE_PAPER = {
    "superlative": (1172, 7374),
    "comparative": (1153, 7144),
    "counting": (643, 1309),
    "sorting": (1034, 6009),
    "aggregation": (508, 1822),
    "subtraction": (500, 1500),
    "total": (5010, 25158),
}
RECOE_COLUMNS = ("examples", "atomic facts", "before the change")


def recoe(rows: Rows) -> list[DataTable]:
    """ReCoE, Table 2: examples and atomic counterfactual facts of each scheme."""
    counted = {scheme: _recoe_counts(rows[f"{scheme}.json"]) for scheme in RECOE_PAPER if f"{scheme}.json" in rows}
    whole = len(counted) == len(RECOE_PAPER) - 1
    if whole:
        examples, altered, before = (sum(column) for column in zip(*counted.values(), strict=True))
        counted["total"] = (examples, altered, before)
    figures, notes = [], []
    for scheme, (examples, atoms) in RECOE_PAPER.items():
        here = counted.get(scheme, (None, None, None))
        for column, ours, printed in zip(RECOE_COLUMNS, here, (examples, atoms, None), strict=True):
            figures.append(DataFigure(row=scheme, column=column, here=ours, paper=printed))
        notes += part(scheme, int(here[0] or 0), examples)
    notes += [
        "atomic facts: of the counterfactuals, as the paper's caption says",
        "in aggregation and subtraction the paper's number is that of the facts before the change",
    ]
    return [DataTable(title="ReCoE, Table 2", figures=tuple(figures), notes=tuple(notes))]


def _recoe_counts(rows: Sequence[Any]) -> tuple[int, int, int]:
    altered = sum(len(fact.atomic_facts) for row in rows for fact in row.facts)
    return len(rows), altered, sum(len(fact.atomic_facts) for row in rows for fact in row.known)


DOCTER_PAPER: tuple[tuple[str, str, float], ...] = (
    ("English documents", "en_doc.json crosslingual_en_doc.json", 3000),
    ("Chinese documents", "crosslingual_zh_doc.json", 1000),
    ("edit success", "edit_success_eval.json", 2000),
    ("locality", "locality_eval.json", 2000),
    ("reasoning", "reasoning_eval.json", 583),
    ("cross-lingual, en->zh", "cross_zh_eval.json", 1000),
    ("cross-lingual, zh->en", "cross_en_eval.json", 1000),
)


def docter(rows: Rows) -> list[DataTable]:
    """DocTER, sections 4.2 and 4.4: documents and test instances; the paper has no table of them."""
    figures, notes = [], []
    for name, files, printed in DOCTER_PAPER:
        tables = [rows[file] for file in files.split() if file in rows]
        here = sum(map(len, tables)) if len(tables) == len(files.split()) else None
        queries = [row for table in tables for row in table]
        figures.append(DataFigure(row=name, column="instances", here=here, paper=printed))
        figures.append(DataFigure(row=name, column="prompts", here=_prompts(queries)))
        notes += part(name, here or 0, int(printed))
    notes.append("the paper's mean lengths (369.67 and 338.71) are in tokens of InternLM-7B and are not counted here")
    return [DataTable(title="DocTER, sections 4.2 and 4.4", figures=tuple(figures), notes=tuple(notes))]


def _prompts(rows: Sequence[Any]) -> int | None:
    """Number of prompts: the query with its paraphrases, or all queries of a record; None for documents."""
    if any(hasattr(row, "paraphrase_query") for row in rows):
        return sum(1 + len(row.paraphrase_query) for row in rows)
    if any(hasattr(row, "query") for row in rows):
        return sum(len(row.query) for row in rows)
    return len(rows) if any(hasattr(row, "label") for row in rows) else None


MQUAKE_PAPER = {"CF": 9218, "CF-3k": 3000, "CF-3k-v2": 3000, "T": 1825}


def mquake(rows: Rows) -> list[DataTable]:
    """MQuAKE: instances as its README prints them, by hops, and edits."""
    figures, notes = [], []
    for name, printed in MQUAKE_PAPER.items():
        held = rows.get(f"datasets/MQuAKE-{name}.json")
        here = len(held) if held else None
        figures.append(DataFigure(row=name, column="instances", here=here, paper=printed))
        edits = sum(len(row.requested_rewrite) for row in held) if held else None
        figures.append(DataFigure(row=name, column="edits", here=edits))
        for hops in (2, 3, 4):
            count = sum(len(row.new_single_hops) == hops for row in held) if held else None
            figures.append(DataFigure(row=name, column=f"{hops} hops", here=count))
        notes += part(name, here or 0, printed)
    return [DataTable(title="MQuAKE, README", figures=tuple(figures), notes=tuple(notes))]


COUNTERFACT_PAPER = {
    "counterfact.json": 21919,
    "multi_counterfact.json": None,
    "counterfact-edit.json": 10000,
    "counterfact-edit-evidence-1k.json": None,
}


def counterfact(rows: Rows) -> list[DataTable]:
    """CounterFact: records as ROME and EasyEdit print them, and what is asked about them."""
    figures, notes = [], []
    for name, printed in COUNTERFACT_PAPER.items():
        held = rows.get(name, [])
        here = len(held) or None
        figures.append(DataFigure(row=name, column="records", here=here, paper=printed))
        for column, field, single in (
            ("paraphrases", "paraphrase_prompts", "rephrase_prompt"),
            ("neighbours", "neighborhood_prompts", "locality_prompt"),
        ):
            count = sum(len(getattr(row, field, ())) or hasattr(row, single) for row in held)
            figures.append(DataFigure(row=name, column=column, here=count if held else None))
        notes += part(name, here or 0, printed or 0)
    return [DataTable(title="CounterFact", figures=tuple(figures), notes=tuple(notes))]


TABLES: dict[str, Callable[[Rows], list[DataTable]]] = {
    "akew": akew,
    "docter": docter,
    "elken": elken,
    "recoe": recoe,
    "mquake": mquake,
    "counterfact": counterfact,
}
