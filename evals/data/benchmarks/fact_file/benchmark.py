"""A benchmark over a file of your own facts: one case per row."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.counterfact.benchmark import CounterFact
from emend.evals.data.benchmarks.fact_file.read import HUB, read_facts
from emend.evals.data.benchmarks.fact_file.rows import FactRow
from emend.evals.data.benchmarks.files import sha256
from emend.evals.data.benchmarks.options import check_request, known_options
from emend.memory.errors import BadSettings

DEFINITION = Definition.beside(__file__)
WRITTEN = CounterFact.definition


class FactFile:
    """The facts of a file, in its order; a limit takes a seeded sample.

    Args:
        path: file, or `hf:` and a data set.
        data: None; the file is named in place of the benchmark.
        options: none.

    Raises:
        BadSettings: an option, or a data folder.
        MissingData: there is no such file.
        BadData: a row is malformed.
    """

    name: ClassVar[str] = "facts"
    settings: ClassVar[tuple[str, ...]] = ("facts",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"

    def __init__(self, path: str, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.path = path
        known_options(path, options, ())
        if data is not None:
            raise BadSettings(f"--data with a file of facts: '{path}' is the file itself; leave --data out.")
        _ = self._rows

    @cached_property
    def _rows(self) -> list[FactRow]:
        return read_facts(self.path)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """One case per row."""
        check_request(self.path, setting, self.settings, limit)
        count = len(self._rows)
        chosen = sorted(random.Random(seed).sample(range(count), min(count, limit or count)))
        return (self._rows[place].case for place in chosen)

    def metrics(self) -> Sequence[Metric]:
        """Those that a row of the file has a question for."""
        kinds = {probe.kind for row in self._rows for probe in row.case.probes}
        return [metric for metric in DEFINITION.metrics if kinds & set(metric.kinds)]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Those written by hand for CounterFact, whose subjects are invented."""
        return [
            Demonstration.model_validate({"fact": WRITTEN.facts["triplet"], **row}) for row in WRITTEN.demonstrations
        ]

    @property
    def provenance(self) -> dict[str, Any]:
        """The file with its sha256, and the number of rows."""
        digest = {} if self.path.startswith(HUB) else {"sha256": sha256(Path(self.path).expanduser())}
        return {"source": "a file of facts", "files": {self.path: digest | {"records": len(self._rows)}}}
