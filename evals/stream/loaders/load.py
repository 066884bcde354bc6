"""The stream of a file, by its ending: Emend's own lines, or the file of a published benchmark."""

from collections.abc import Callable, Mapping
from pathlib import Path

from emend.evals.data.benchmarks.rows import read_text
from emend.evals.stream.loaders import longmemeval, meme
from emend.evals.stream.loaders.longmemeval import longmemeval_stream
from emend.evals.stream.loaders.meme import meme_stream
from emend.evals.stream.loaders.memory_agent_bench import read_memory_agent_bench
from emend.evals.stream.turn import StreamItem, read_stream
from emend.memory.errors import BadData, MissingData
from emend.memory.json_files import parse_json

REMEDY = f"{longmemeval.REMEDY} {meme.REMEDY}"


def _read_json(path: Path) -> list[StreamItem]:
    """LongMemEval's questions or MEME's episodes, each a stream of its own."""
    if not path.is_file():
        raise MissingData(f"there is no file '{path}'. {REMEDY}")
    entries = parse_json(read_text(path, REMEDY), str(path))
    if not (isinstance(entries, list) and entries):
        raise BadData(f"{path} is no list of questions or episodes. {REMEDY}")
    is_meme = isinstance(entries[0], dict) and "episode_id" in entries[0]
    read = meme_stream if is_meme else longmemeval_stream
    return [item for number, fields in enumerate(entries) for item in read(fields, f"{path}, entry {number}")]


READERS: Mapping[str, Callable[[Path], list[StreamItem]]] = {
    ".parquet": read_memory_agent_bench,
    ".json": _read_json,
}
"""By ending, the reader of a benchmark's file; any other file has Emend's lines."""


def load_stream(path: Path) -> list[StreamItem]:
    """The turns and questions of a file: MemoryAgentBench's `.parquet`, LongMemEval's or MEME's `.json`, Emend's lines.

    Raises:
        MissingData: there is no such file.
        BadData: it has another form; names the place.
    """
    return READERS.get(path.suffix.lower(), read_stream)(path)
