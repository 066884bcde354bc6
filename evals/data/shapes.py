"""The files of each benchmark as its loader reads them: row model, key of a record, options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.data.benchmarks import akew, counterfact, docter, elken, mquake, recoe
from emend.evals.data.benchmarks.elken import BLOCKS, EventRow, KnowledgeQuestion
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.recoe import ROWS as RECOE_ROWS
from emend.evals.data.benchmarks.rows import BenchmarkRow


class Shape(NamedTuple):
    """File of a benchmark: its possible names, in the order in which the loader looks for them, and how it is read."""

    names: tuple[str, ...]
    row: type[BenchmarkRow]
    key: str
    """Field of the file that must be unique; "" for none."""
    options: Mapping[str, str]
    """The options with which the benchmark reads this file."""
    beside: tuple[str, ...] = ()
    """Other files that it reads with these options, each with a shape of its own."""

    def find(self, folder: Path) -> str | None:
        """Return the file's name in the folder, None if it is absent."""
        return next((name for name in self.names if (folder / name).is_file()), None)

    def value(self, row: Any) -> object:
        """The value of the key, which every model but ELKEN's calls `id`."""
        return row.event if self.key == "event" else row.id


_CROSSED = {file: block for block, (_, *files) in docter.DIRECTIONS.items() for file in files}
ELKEN_BLOCKS = ",".join(BLOCKS)
SHAPES: dict[str, list[Shape]] = {
    "akew": [Shape(names, row, "case_id", {"dataset": name}) for name, (row, names) in akew.FILES.items()],
    "docter": [
        Shape((name,), row, "id", {"blocks": block} if (block := _CROSSED.get(name)) else {})
        for name, row in docter.ROWS.items()
    ],
    # The test split looks for its events in the other one, and the knowledge questions follow its cases.
    "elken": [
        Shape(("test.json",), EventRow, "event", {"split": "test", "blocks": ELKEN_BLOCKS}, ("train.json",)),
        Shape(("train.json",), EventRow, "event", {"split": "train", "blocks": ELKEN_BLOCKS}),
        Shape(
            elken.KNOWLEDGE_FILES,
            KnowledgeQuestion,
            "",
            {"blocks": elken.KNOWLEDGE},
            ("test.json", "train.json"),
        ),
    ],
    "recoe": [
        Shape((f"{scheme}.json", recoe.AWSLABS.format(scheme=scheme)), row, "", {"schemes": scheme})
        for scheme, row in RECOE_ROWS.items()
    ],
    "mquake": [Shape(names, ChainRow, "case_id", {"dataset": name}) for name, names in mquake.DATASETS.items()],
    "counterfact": [
        Shape(names, row, "case_id", {"dataset": name}) for name, (row, names) in counterfact.DATASETS.items()
    ],
}


def other_datasets(benchmark: str, folder: Path | None, options: Mapping[str, str]) -> list[str]:
    """Return the values of the option `dataset` for which a folder has a file, and which these options do not name."""
    if folder is None:
        return []
    names = [shape.options.get("dataset", "") for shape in SHAPES.get(benchmark, ()) if shape.find(folder)]
    return [name for name in dict.fromkeys(names) if name and name != options.get("dataset")]
