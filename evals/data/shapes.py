"""Files of each benchmark: their names, the models of their records, and the options for reading
them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.data.benchmarks import counterfact, halluedit, mquake
from emend.evals.data.benchmarks.akew import benchmark as akew
from emend.evals.data.benchmarks.docter import benchmark as docter
from emend.evals.data.benchmarks.editing import knowedit, uniedit, wikibigedit
from emend.evals.data.benchmarks.elken import benchmark as elken
from emend.evals.data.benchmarks.elken.cases import BLOCKS
from emend.evals.data.benchmarks.elken.rows import EventRow, KnowledgeQuestion
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.recoe import benchmark as recoe
from emend.evals.data.benchmarks.recoe.rows import ROWS as RECOE_ROWS
from emend.evals.data.benchmarks.rows import BenchmarkRow
from emend.evals.data.conversations import beam, locomo, longmemeval, memory_agent_bench
from emend.memory.errors import MissingData


class Shape(NamedTuple):
    """A file of a benchmark: its possible names, in the order in which the loader looks for them,
    and how it is read.
    """

    names: tuple[str, ...]
    row: type[BenchmarkRow] | None
    """Model of a record; None for a file that is not a list of records, which the benchmark reads
    itself."""
    key: str
    """Field whose values must be unique; "" for none."""
    options: Mapping[str, str]
    """Options with which the benchmark reads this file."""
    beside: tuple[str, ...] = ()
    """Other files that the benchmark reads with these options; each has its own shape."""

    def find(self, folder: Path) -> str | None:
        """Return the file's name in the folder; None if it is absent."""
        return next((name for name in self.names if (folder / name).is_file()), None)

    def value(self, row: Any) -> object:
        """Return the value of the key, which is `id` in every model but ELKEN's."""
        if self.key == "event":
            return row.event
        return row.id


_CROSSED = {file: block for block, (_, *files) in docter.DIRECTIONS.items() for file in files}
ELKEN_BLOCKS = ",".join(BLOCKS)
SHAPES: dict[str, list[Shape]] = {
    "akew": [
        Shape(names, row, "case_id", {"dataset": name}) for name, (row, names) in akew.FILES.items()
    ],
    "docter": [
        Shape((name,), row, "id", {"blocks": block} if (block := _CROSSED.get(name)) else {})
        for name, row in docter.ROWS.items()
    ],
    # The test split also reads the train split to find shared events, and knowledge questions need
    # the event files.
    "elken": [
        Shape(
            ("test.json",),
            EventRow,
            "event",
            {"split": "test", "blocks": ELKEN_BLOCKS},
            ("train.json",),
        ),
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
    "mquake": [
        Shape(names, ChainRow, "case_id", {"dataset": name})
        for name, names in mquake.DATASETS.items()
    ],
    "counterfact": [
        Shape(names, row, "case_id", {"dataset": name})
        for name, (row, names) in counterfact.DATASETS.items()
    ],
    "halluedit": [
        Shape((f"{model}/{topic}.csv",), None, "", {"model": model, "topics": topic})
        for model in halluedit.MODELS
        for topic in halluedit.TOPICS
    ],
    "knowedit": [
        Shape(names, knowedit.EditedFactRow, "", {"dataset": name})
        for name, names in knowedit.FILES.items()
        if name != knowedit.ERASURE
    ],
    "wikibigedit": [
        Shape((f"{period}.json",), wikibigedit.ChangedFactRow, "", {"period": period})
        for period in wikibigedit.WikiBigEdit.definition.names["period"]
    ],
    "uniedit": [
        Shape((f"{domain}.json",), None, "", {"domains": domain})
        for domain in uniedit.UniEdit.definition.names["domains"]
    ],
    "locomo": [Shape(locomo.FILES, locomo.DialogueRow, "", {})],
    "beam": [
        Shape((f"{number}/chat.json", f"{number}.json"), None, "", {})
        for number in range(1, beam.CONVERSATIONS + 1)
    ],
    "longmemeval": [
        Shape(names, longmemeval.HistoryRow, "", {"size": size})
        for size, names in longmemeval.FILES.items()
    ],
    "memory_agent_bench": [
        Shape((name,), None, "", {"splits": split})
        for split, name in memory_agent_bench.FILES.items()
    ],
}


def other_datasets(benchmark: str, folder: Path | None, options: Mapping[str, str]) -> list[str]:
    """Return the values of the option `dataset` that have a file in the folder but are not named in
    the options.
    """
    if folder is None:
        return []
    names = [
        shape.options.get("dataset", "")
        for shape in SHAPES.get(benchmark, ())
        if shape.find(folder)
    ]
    return [name for name in dict.fromkeys(names) if name and name != options.get("dataset")]


def no_files(name: str, folder: Path) -> MissingData:
    """Return the error of a folder without any file of a benchmark."""
    what = f"no folder '{folder}'"
    if folder.is_dir():
        what = f"'{folder}' contains no file of {name}"
    return MissingData(f"{what}. Get them with: emend data pull {name}.")
