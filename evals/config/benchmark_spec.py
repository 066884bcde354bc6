"""Part of a configuration that names the benchmark and the number of its cases."""

from collections.abc import Mapping
from typing import NamedTuple


class BenchmarkSpec(NamedTuple):
    """Benchmark of a run, with its options and settings.

    Attributes:
        name: name of the benchmark, or its file.
        data: folder of its files; None for the default folder.
        options: options of the benchmark.
        settings: forms in which editors receive edits; empty for the benchmark's first.
        limit: maximum number of cases per setting; None for all.
    """

    name: str
    data: str | None = None
    options: Mapping[str, str] = {}
    settings: tuple[str, ...] = ()
    limit: int | None = None
