"""The stream of a file, by its ending: Emend's own lines, or the file of a published benchmark."""

from collections.abc import Callable, Mapping
from pathlib import Path

from emend.evals.stream.files import StreamItem, read_stream
from emend.evals.stream.loaders.longmemeval import read_longmemeval
from emend.evals.stream.loaders.memory_agent_bench import read_memory_agent_bench

READERS: Mapping[str, Callable[[Path], list[StreamItem]]] = {
    ".parquet": read_memory_agent_bench,
    ".json": read_longmemeval,
}
"""By ending, the reader of a benchmark's file; any other file has Emend's lines."""


def load_stream(path: Path) -> list[StreamItem]:
    """The turns and questions of a file: MemoryAgentBench's `.parquet`, LongMemEval's `.json`, or Emend's lines.

    Raises:
        MissingData: there is no such file.
        BadData: it has another form; names the place.
    """
    return READERS.get(path.suffix.lower(), read_stream)(path)
