"""Data tables of the papers, compared with the same counts of the files in a folder."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from emend.evals.data.benchmarks.editing.knowedit import LOCALITY, PORTABILITY, questions_of
from emend.evals.data.benchmarks.rows import data_folder, read_rows
from emend.evals.data.data_table import DataFigure, DataTable
from emend.evals.data.docter_documents import lengths, topics
from emend.evals.data.download import source_of
from emend.evals.data.shapes import SHAPES, no_files
from emend.evals.data.token_count import TokenCount, token_count
from emend.memory.errors import BadSettings

# Counts and means by name.
Counts = dict[str, float | None]
# Counts the rows of one entry of a table.
Count = Callable[[Sequence[Any]], Counts]


def stats(
    name: str, data: Path | None = None, tokenizer: Path | None = None
) -> tuple[DataTable, ...]:
    """Return the tables that the paper prints of its data, with the same counts of the files in the
    folder.

    Args:
        name: the benchmark.
        data: folder with its files.
        tokenizer: file or folder of the tokenizer by which mean lengths are counted; by default the
            paper's, if it is in the folder.

    Raises:
        BadSettings: the benchmark does not exist or has no such table, or the tokenizer cannot be
            read.
        MissingData: the folder has none of its files.
        BadData: a record is malformed; `emend data check` names all.
    """
    source_of(name)
    tables = tomllib.loads(Path(__file__).with_name("stats.toml").read_text("utf-8"))
    if name not in tables:
        raise BadSettings(
            f"the paper has no table of {name} to compare with: count it with emend data check "
            f"{name}."
        )
    if tokenizer and name != "docter":
        raise BadSettings(
            f"--tokenizer is for docter, whose paper prints lengths in tokens; leave it out for "
            f"{name}."
        )
    folder = data_folder(name, data)
    rows = _read_present(name, folder)
    first = _counted(tables[name], COUNTS[name], rows)
    if name != "docter":
        return (first,)
    tokens = _tokens(tables["docter_lengths"]["tokenizer"], folder, tokenizer)
    return (
        first,
        lengths(tables["docter_lengths"], rows, tokens),
        topics(tables["docter_topics"], rows),
    )


def _tokens(published: str, folder: Path, path: Path | None) -> TokenCount | None:
    """Return the tokenizer of a path, or the published one if its file is in the folder."""
    if path:
        return token_count(path)
    if (folder / published).is_file():
        return token_count(folder / published)
    return None


def _counted(
    table: Mapping[str, Any], count: Count, rows: Mapping[str, Sequence[Any]]
) -> DataTable:
    """Return a table of counts by file, with a note on each file that is a part."""
    figures, notes = [], []
    for entry in table["entries"]:
        whole = all(file in rows for file in entry["files"])
        here = count([row for file in entry["files"] for row in rows[file]]) if whole else {}
        printed = entry.get("printed", {})
        for quantity in table["quantities"]:
            position = (entry["name"], quantity)
            if "transposed" in table:
                position = (quantity, entry["name"])
            digits = table.get("digits", {}).get(quantity, 0)
            value, paper = here.get(quantity), printed.get(quantity)
            row, column = position
            figures.append(
                DataFigure(row=row, column=column, here=value, paper=paper, digits=digits)
            )
            if quantity == table["counted"] and value and paper and value < paper:
                notes.append(
                    f"{entry['name']}: a part, {value:,} of {paper:,} "
                    f"{table.get('unit', 'records')}"
                )
    return DataTable(
        title=table["title"], figures=tuple(figures), notes=(*notes, *table.get("notes", ()))
    )


def _read_present(name: str, folder: Path) -> dict[str, Sequence[Any]]:
    """Read the rows of the benchmark's files that are in the folder, by the file's first name.

    Raises:
        MissingData: the folder has none of the files.
        BadData: a record is malformed.
    """
    present = {
        shape.names[0]: (file, shape.row)
        for shape in SHAPES[name]
        if (file := shape.find(folder)) and shape.row
    }
    if not present:
        raise no_files(name, folder)
    return {first: read_rows(folder / file, row) for first, (file, row) in present.items()}


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
    if lengths:
        return fmean(lengths)
    return None


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
    """Count DocTER's rows; `prompts` are a record's query with its paraphrases, or all its queries;
    None for documents.
    """
    if any(hasattr(row, "paraphrase_query") for row in rows):
        prompts = sum(1 + len(row.paraphrase_query) for row in rows)
    elif any(hasattr(row, "query") for row in rows):
        prompts = sum(len(row.query) for row in rows)
    else:
        prompts = sum(hasattr(row, "label") for row in rows)
    return {"instances": len(rows), "prompts": prompts or None}


def _mquake(rows: Sequence[Any]) -> Counts:
    edits = sum(len(row.requested_rewrite) for row in rows)
    counts: Counts = {"instances": len(rows), "edits": edits}
    for hops in (2, 3, 4):
        counts[f"{hops} hops"] = sum(row.hops == hops for row in rows)
    return counts


def _counterfact(rows: Sequence[Any]) -> Counts:
    """Count CounterFact's rows; a row of EasyEdit's form has one paraphrase and one neighbour."""
    return {
        "records": len(rows),
        "paraphrases": sum(len(getattr(row, "paraphrase_prompts", ("",))) for row in rows),
        "neighbours": sum(len(getattr(row, "neighborhood_prompts", ("",))) for row in rows),
    }


def _knowedit(rows: Sequence[Any]) -> Counts:
    return {
        "rows": len(rows),
        "paraphrases": sum(bool(row.rephrase_prompt) for row in rows),
        "portability": _asked(rows, "portability", PORTABILITY),
        "locality": _asked(rows, "locality", LOCALITY),
    }


def _asked(rows: Sequence[Any], field: str, groups: Sequence[str]) -> int:
    return sum(1 for row in rows for _ in questions_of(getattr(row, field), groups))


COUNTS: dict[str, Count] = {
    "akew": _akew,
    "docter": _docter,
    "elken": _elken,
    "recoe": _recoe,
    "mquake": _mquake,
    "counterfact": _counterfact,
    "knowedit": _knowedit,
}
