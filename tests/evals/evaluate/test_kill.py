"""A run that is killed at any moment and resumed ends with exactly the records of an undisturbed one.

EMEND_KILLS=20 kills twenty times; the usual few keep the suite quick.
"""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.lines import BASELINE, RECORDS
from emend.evals.log.records import read_lines
from tests.evals.toy_runs import steps_of, untimed_records
from tests.evals.toys import BENCHMARK, EDITOR, FLEETING_EDITOR, HEAVY, ScriptedModel

KILLS = int(os.environ.get("EMEND_KILLS", "3"))
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["emend.evals.evaluate.run", "emend.editors.memory_based.rag", "tests.evals.toys"])


def config(mode: str, editors: tuple[str, ...]) -> RunConfig:
    """With `sequential`, checkpoints too."""
    return RunConfig(
        benchmark=BENCHMARK,
        editors=editors,
        model="scripted",
        mode=mode,
        reevaluate_at="every:10,end" if mode == "sequential" else None,
        embedding="lexical",
        benchmark_options={"cases": "25", "probes": "3"},
    )


def work(mode: str, editors: tuple[str, ...], folder: str) -> None:
    """What the child does."""
    run(config(mode, editors), Path(folder), model=ScriptedModel(delay=0.002))


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def kill_at(child: Any, path: Path, target: float, rng: random.Random) -> int:
    """Kill it a random moment after the file has grown to the target; one in four at any moment since the start."""
    if rng.random() < 0.25:
        time.sleep(rng.uniform(0, 0.5))
    else:
        while size(path) < target and child.is_alive():
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.03))
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return size(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "editors"),
    [
        ("single", ("unedited", EDITOR, HEAVY)),
        ("all", (HEAVY, "rag")),
        ("sequential", ("unedited", FLEETING_EDITOR, "rag")),
    ],
)
def test_killed_and_resumed_is_as_if_undisturbed(tmp_path: Path, mode: str, editors: tuple[str, ...]) -> None:
    run(config(mode, editors), tmp_path / "whole", model=ScriptedModel())
    whole, path = size(tmp_path / "whole" / RECORDS), tmp_path / "run" / RECORDS
    rng = random.Random()
    sizes: list[int] = []
    for done in range(KILLS):
        child = CONTEXT.Process(target=work, args=(mode, editors, str(tmp_path / "run")))
        child.start()
        target = size(path) + rng.uniform(0, 1.5) * (whole - size(path)) / (KILLS - done)
        sizes.append(kill_at(child, path, min(target, whole), rng))
    summary = run(config(mode, editors), tmp_path / "run", model=ScriptedModel())
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "whole"), f"killed at sizes {sizes}"
    assert steps_of(tmp_path / "run") == steps_of(tmp_path / "whole")
    assert summary.skipped + summary.finished == summary.units
    asked = [line["key"] for line in read_lines(tmp_path / "run", BASELINE)]
    assert len(asked) == len(set(asked)) == len(list(read_lines(tmp_path / "whole", BASELINE)))
    print(f"killed {KILLS} times, records.jsonl had {sizes} of {whole} bytes")
