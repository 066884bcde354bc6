"""Small streams, and runs over them by a reader without faults."""

from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.log.records import read_records
from emend.evals.streams.fairness import OracleReader
from emend.evals.streams.generator import generate_stream
from emend.evals.streams.run.job import run_stream
from emend.evals.streams.stream_config import StreamConfig, StreamOptions
from emend.evals.streams.turn import StreamQuestion, Turn, write_stream

Items = list[Turn | StreamQuestion]
READER = "emend.evals.streams.fairness:OracleReader"


def generated(**options: Any) -> Items:
    return list(generate_stream(StreamOptions.model_validate({"turns": 60} | options)))


def questions_of(items: Items) -> list[StreamQuestion]:
    return [item for item in items if isinstance(item, StreamQuestion)]


def turns_of(items: Items) -> list[Turn]:
    return [item for item in items if isinstance(item, Turn)]


def stream_file(folder: Path, items: Items | None = None) -> Path:
    file = folder / "stream.jsonl"
    write_stream(generated() if items is None else items, file)
    return file


def run_systems(
    folder: Path, *systems: str, file: Path | None = None, model: Any = None, **fields: Any
) -> list[Record]:
    """The records of a run over a stream."""
    config = StreamConfig(systems=systems, model="scripted", embedding="lexical", **fields)
    out = folder / "run"
    run_stream(file or stream_file(folder), config, out, model=model or OracleReader())
    return list(read_records(out))


def accuracy(records: list[Record], editor: str, *kinds: str) -> float:
    values = [each.values["correct"] for each in records if each.editor == editor and (not kinds or each.kind in kinds)]
    return sum(values) / len(values)
