"""MemoryAgentBench's conflict split (Hu et al. 2025): numbered facts, of which a later one replaces an earlier one.

The columns are those of `Conflict_Resolution-00000-of-00001.parquet`: `context`, `questions`, `answers` (a list of
accepted answers for each question) and `metadata` with its `source`, such as `factconsolidation_mh_32k`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emend.evals.stream.turn import StreamItem, StreamQuestion, Turn
from emend.memory.errors import BadData, MissingData

SOURCE = "https://huggingface.co/datasets/ai-hyz/MemoryAgentBench"
CONFLICT = "factconsolidation"
COLUMNS = ("context", "questions", "answers", "metadata")
_FACT = re.compile(r"^\d+\. .+$", re.MULTILINE)
REMEDY = f"Give Conflict_Resolution-00000-of-00001.parquet of {SOURCE}."


def read_memory_agent_bench(path: Path) -> list[StreamItem]:
    """A stream for each row about conflicts: its facts as turns, with their numbers, then its questions.

    Raises:
        MissingData: there is no such file.
        BadData: it is no such file.
    """
    if not path.is_file():
        raise MissingData(f"there is no file '{path}'. {REMEDY}")
    items: list[StreamItem] = []
    for number, row in enumerate(_rows(path)):
        source = str((row["metadata"] or {}).get("source", ""))
        if source.startswith(CONFLICT):
            items.extend(_stream(source, row, f"{path}, row {number}"))
    if not items:
        raise BadData(f"{path} has no row whose metadata.source begins with '{CONFLICT}'. {REMEDY}")
    return items


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import duckdb  # lazily: it takes long to import

    try:
        with duckdb.connect() as database:
            result = database.execute("select * from read_parquet(?)", [str(path)])
            names = [column[0] for column in result.description or ()]
            rows = result.fetchall()
    except duckdb.Error as error:
        raise BadData(f"cannot read '{path}': {error}. {REMEDY}") from error
    if lacking := [name for name in COLUMNS if name not in names]:
        raise BadData(f"{path} has no column {', '.join(lacking)}. {REMEDY}")
    return (dict(zip(names, row, strict=True)) for row in rows)


def _stream(source: str, row: dict[str, Any], place: str) -> Iterator[StreamItem]:
    facts = _FACT.findall(str(row["context"]))
    questions, answers = row["questions"] or [], row["answers"] or []
    if not facts or len(questions) != len(answers):
        raise BadData(
            f"{place}: {len(facts)} numbered facts, {len(questions)} questions, {len(answers)} answers. {REMEDY}"
        )
    is_multi_hop = "_mh_" in source
    for number, fact in enumerate(facts):
        yield Turn(id=f"{source}:{number}", stream=source, session=source, text=fact)
    for number, (question, accepted) in enumerate(zip(questions, answers, strict=True)):
        yield StreamQuestion(
            id=f"{source}:q{number}",
            stream=source,
            text=str(question),
            kind="multi_hop" if is_multi_hop else "current",
            gold=tuple(map(str, accepted if isinstance(accepted, list) else [accepted])),
            hops=2 if is_multi_hop else 1,
            place=len(facts),
        )
