"""Shares of real editors on the embedded model, killed and resumed, give the records of the undivided run."""

import multiprocessing
import time
from pathlib import Path

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.merge import merge
from emend.evals.evaluate.run import run
from emend.evals.log.lines import RECORDS
from tests.evals.toy_runs import steps_of, untimed_records

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["emend.evals.evaluate.run", "emend.editors.memory_based.rag"])


def config(mode: str, share: str | None = None) -> RunConfig:
    """In mode `single` as many cases as make two portions that ROME solves ahead."""
    return RunConfig(
        benchmark="tinyworld",
        editors=("rag", "rome"),
        mode=mode,
        limit=17 if mode == "single" else 10,
        embedding="lexical",
        concurrency=1,
        overrides={"model": {"gather": 1}, "rome": {"v_num_grad_steps": 2}},
        share=share,
    )


def evaluate(mode: str, share: str | None, folder: str) -> None:
    """What a child process does."""
    run(config(mode, share), Path(folder))


def start(mode: str, share: str | None, folder: Path) -> multiprocessing.process.BaseProcess:
    child = CONTEXT.Process(target=evaluate, args=(mode, share, str(folder)))
    child.start()
    return child


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["single", "batch:5"])
def test_killed_shares_are_the_whole_run(tmp_path: Path, mode: str) -> None:
    whole, one = start(mode, None, tmp_path / "whole"), start(mode, "1/2", tmp_path / "x.1")
    records, limit = tmp_path / "x.1" / RECORDS, time.monotonic() + 240
    while one.is_alive() and time.monotonic() < limit and not (records.exists() and records.stat().st_size > 20_000):
        time.sleep(0.01)
    one.kill()
    one.join()
    for share in (1, 2):
        evaluate(mode, f"{share}/2", str(tmp_path / f"x.{share}"))
    whole.join(240)
    assert whole.exitcode == 0
    merge([tmp_path / "x.1", tmp_path / "x.2"], tmp_path / "x")
    assert untimed_records(tmp_path / "x") == untimed_records(tmp_path / "whole")
    assert steps_of(tmp_path / "x") == steps_of(tmp_path / "whole")
