"""Costs of editing by group, from the lines of `costs.jsonl`."""

import json
from pathlib import Path
from typing import Any

from emend.evals.log.lines import COSTS
from emend.evals.results.aggregate.costs import PER_EDIT, costs_of_one

COST = {"seconds": 1.0, "cpu_seconds": 1.0, "tokens": 10, "peak_bytes": None, "edits": 2, "of": ["a", "b"]}


def line(**changed: Any) -> str:
    place = {"act": "edit", "setting": "s", "mode": "all", "editor": "rag", "repeat": 0}
    return json.dumps(place | COST | changed) + "\n"


def test_edits_that_another_worker_applies_again_count_once(tmp_path: Path) -> None:
    (tmp_path / COSTS).write_text(line() + line(seconds=3.0) + line(repeat=1) + line(of=["c", "d"]), encoding="utf-8")
    (columns,) = costs_of_one(tmp_path, "edit", "edits", PER_EDIT).values()
    assert list(columns["tokens", ""].values) == [5.0, 5.0, 5.0]
