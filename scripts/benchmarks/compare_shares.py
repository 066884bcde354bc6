"""Shares of every mode and editor, merged: their records, steps and baseline are those of the undivided run.

    python scripts/benchmarks/compare_shares.py --shares 2 3 4 5

Runs the embedded model on the invented world, undivided and in each number of shares, and prints for each mode how many
combinations of editor and number of shares there were, and which differ.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}

from emend.editors.base import NO_COST
from emend.editors.registry import EDITORS
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.merge import merge
from emend.evals.evaluate.run import run
from emend.evals.log.lines import BASELINE, EVENTS
from emend.evals.log.records import read_lines, read_records

MODES = {"single": 5, "single, solved ahead": 65, "batch:2": 9, "all": 5, "sequential": 3}
"""Cases of a run in each mode; ahead, 16 cases are a part."""
TOOLS = "agent"
"""The embedded model calls no tools; graphs are tested in the others."""
AHEAD = ("rome", "r_rome", "memit", "alphaedit")
SHORT: dict[str, dict[str, Any]] = {
    "model": {"gather": 1},
    "mello": {"hops": 2},
    "ft": {"num_steps": 1},
    "lora": {"num_steps": 1},
    "qlora": {"num_steps": 1},
} | {name: {"v_num_grad_steps": 1} for name in AHEAD}


def config(mode: str, editors: Sequence[str], share: str | None) -> RunConfig:
    """Answers do not depend on what is asked at the same time, since one unit is, and few steps keep edits short."""
    return RunConfig(
        benchmark="tinyworld",
        editors=tuple(editors),
        mode=mode.partition(",")[0],
        limit=MODES[mode],
        embedding="lexical",
        concurrency=1,
        overrides={name: values for name, values in SHORT.items() if name in (*editors, "model")},
        share=share,
    )


def lines_of(folder: Path) -> dict[str, list[str]]:
    """By editor: records and steps without times, sorted; and the keys of the answers of the unedited model."""
    lines: dict[str, list[str]] = defaultdict(list)
    editors = {}
    for record in read_records(folder):
        editors[record.unit] = record.editor
        untimed = record.model_copy(update={"seconds": 0.0, "edit_cost": NO_COST})
        lines[record.editor].append(untimed.model_dump_json())
    for step in read_lines(folder, EVENTS):
        if "unit" in step:
            update = (step["unit"], step["probe"], step["node"], step["place"], str(step["update"]))
            lines[editors[step["unit"]]].append(str(update))
    lines["baseline"] = [line["key"] for line in read_lines(folder, BASELINE)]
    return {editor: sorted(of) for editor, of in lines.items()}


def compare(mode: str, editors: Sequence[str], shares: Sequence[int], home: Path) -> tuple[int, list[str]]:
    """Number of combinations, and those that differ."""
    run(config(mode, editors, None), home / "whole")
    whole, differ = lines_of(home / "whole"), []
    for of in shares:
        folders = [home / f"{of}.{number}" for number in range(1, of + 1)]
        for number, folder in enumerate(folders, 1):
            run(config(mode, editors, f"{number}/{of}"), folder)
        merge(folders, home / f"merged.{of}")
        parts = lines_of(home / f"merged.{of}")
        differ += [f"{name} in {of}" for name in whole if parts.get(name) != whole[name]]
    return len(editors) * len(shares), differ


def main() -> int:
    """Compare, and print a line per mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shares", nargs="+", type=int, default=[2, 3, 4, 5])
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--editors", nargs="+", default=[name for name in EDITORS.names() if name != TOOLS])
    options = parser.parse_args()
    failed = False
    for mode in options.modes:
        ahead = mode.partition(", ")[2]
        editors = [name for name in options.editors if not mode.startswith("single") or bool(ahead) == (name in AHEAD)]
        began = time.process_time()
        with tempfile.TemporaryDirectory() as home:
            count, differ = compare(mode, editors, options.shares, Path(home))
        failed |= bool(differ)
        what = f"{mode:22} {len(editors):3} editors  {count:3} combinations  {len(differ)} differ"
        print(f"{what}  {time.process_time() - began:.0f} CPU-s {'; '.join(differ)}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
