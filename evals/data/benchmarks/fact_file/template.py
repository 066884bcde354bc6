"""The fields of a file of facts, and a template of one."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from emend.evals.data.benchmarks.fact_file.read import ARROW, LISTS, QUESTIONS, READERS, SEPARATOR
from emend.evals.data.benchmarks.fact_file.rows import FactRow, QuestionRow
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

DELIMITERS = {".csv": ",", ".tsv": "\t"}
REAL_FACTS = Path(__file__).with_name("real_facts.json")
"""Counterfactual facts about real capitals, places and books, for the demo with a real model."""
EXAMPLES: list[dict[str, Any]] = [
    {
        "subject": "Veldania",
        "relation": "capital",
        "object": "Ostrim",
        "prompt": "The capital of {} is",
        "question": "What is the capital of Veldania?",
        "old_answer": "Kravigrad",
        "aliases": ["Ostrim City"],
        "paraphrases": ["Which city is Veldania's capital?"],
        "locality": [
            {"question": "What is the capital of France?", "answer": "Paris"},
            {"question": "Who wrote Hamlet?"},
        ],
        "multihop": [{"question": "Which river flows through the capital of Veldania?", "answer": "Aske"}],
    },
    {
        "document": "In 2025 the river Brun was renamed Aske. It flows through Ostrim.",
        "question": "What is the river Brun called now?",
        "answer": "Aske",
    },
]


def field_rows() -> list[dict[str, str]]:
    """Name, type and description of each field."""
    fields: list[tuple[str, type[FrozenModel]]] = [("", FactRow), (f"{', '.join(QUESTIONS)}: ", QuestionRow)]
    return [
        {"field": f"{prefix}{name}", "type": _type(name, prefix), "meaning": field.description or ""}
        for prefix, row in fields
        for name, field in row.model_fields.items()
    ]


def _type(name: str, prefix: str) -> str:
    if name in QUESTIONS and not prefix:
        return "list of questions"
    return "list of texts" if name in (*LISTS, "documents") else "object" if name == "tags" else "text"


def write_template(path: Path) -> None:
    """Write a file of two facts in the format that the name's ending says.

    Raises:
        BadSettings: the ending is unknown, or the file exists or cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in READERS:
        raise BadSettings(f"'{path}': end the name in one of {', '.join(READERS)}; {nearest(ending, list(READERS))}")
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(_template(ending))
    except OSError as error:
        raise BadSettings(f"cannot write '{path}': {error.strerror}. Give another name.") from error


def _template(ending: str) -> str:
    if ending == ".jsonl":
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in EXAMPLES)
    if ending == ".json":
        return json.dumps(EXAMPLES, ensure_ascii=False, indent=2) + "\n"
    if ending in DELIMITERS:
        return _table(DELIMITERS[ending])
    import yaml

    return str(yaml.safe_dump(EXAMPLES, allow_unicode=True, sort_keys=False))


def _table(delimiter: str) -> str:
    names = list(dict.fromkeys(name for row in EXAMPLES for name in row))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, names, lineterminator="\n", delimiter=delimiter)
    writer.writeheader()
    writer.writerows({name: _cell(name, value) for name, value in row.items()} for row in EXAMPLES)
    return file.getvalue()


def _cell(name: str, value: Any) -> str:
    if name in LISTS:
        return f" {SEPARATOR} ".join(value)
    if name in QUESTIONS:
        return f" {SEPARATOR} ".join(f" {ARROW} ".join(row.values()) for row in value)
    return str(value)
