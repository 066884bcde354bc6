"""Runs in processes: the same records as in threads, and no process that outlives its driver."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emend.editors.registry import EDITORS
from emend.evals.config.division import WorkersSpec
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.job import EvaluationJob
from emend.evals.evaluate.run import run
from emend.evals.evaluate.setup.run_setup import load_setup
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.workers.choose import MAX_PROCESSES, make_workers
from emend.evals.jobs.workers.processes import processors, share_of_processors
from emend.evals.log.lines import BASELINE, COSTS
from emend.evals.log.records import read_lines
from emend.memory import registry
from emend.memory.errors import BadSettings, WorkerDied
from scripts.benchmarks.kill_workers import fork_servers_of, workers_of
from tests.evals.toy_runs import steps_of, untimed_records
from tests.evals.toys import BENCHMARK, EDITOR, FLEETING_EDITOR, HEAVY, ScriptedModel

DEADLY = "tests.evals.jobs.workers.deadly:DeadlyEditor"
registry.trust_names([DEADLY])


def config(**changed: object) -> RunConfig:
    values = {"benchmark": BENCHMARK, "editors": ("unedited", EDITOR, HEAVY), "model": "tests.evals.toys:ScriptedModel"}
    return RunConfig.model_validate(values | {"embedding": "lexical"} | changed)


def processes() -> list[int]:
    """All that this process has started for its runs and that has not ended."""
    return fork_servers_of(os.getpid()) + workers_of(os.getpid())


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Killer(Progress):
    """Kills a process whenever another so many units are through, at most so often."""

    def __init__(self, targets: Callable[[int], list[int]], every: int, times: int) -> None:
        self.targets, self.units, self.every, self.left = targets, 0, every, times

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        self.units += 1
        if self.left and self.units % self.every == 0 and (targets := self.targets(os.getpid())):
            self.left -= 1
            os.kill(min(targets), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_costs_no_record(tmp_path: Path):
    run(config(), tmp_path / "threads")
    summary = run(config(workers="processes:2"), tmp_path / "run", Killer(workers_of, every=4, times=1))
    assert summary.finished == summary.units and not summary.failed
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "threads")
    assert steps_of(tmp_path / "run") == steps_of(tmp_path / "threads")
    assert not processes() and not list((tmp_path / "run" / "memory").glob("*/*"))
    assert [line["workers"] for line in read_lines(tmp_path / "run", COSTS) if line["act"] == "run"] == ["processes:2"]


def test_a_model_that_is_an_object_stays_in_its_process(tmp_path: Path):
    with pytest.raises(BadSettings, match="object of this process"):
        run(config(workers="processes:2"), tmp_path / "run", model=ScriptedModel())


def chosen(folder: Path, monkeypatch: pytest.MonkeyPatch, units: int, cores: int = 4, **changed: Any) -> str:
    """The name of the workers that a run would use."""
    monkeypatch.setattr("emend.evals.jobs.workers.choose.processors", lambda: cores)
    monkeypatch.setitem(registry._objects, "rag", EDITORS.load("rag"))
    registry.trust_names(["object:rag"])
    asked = config(**{"editors": ("rag",), "model": "openai:any-model", "concurrency": 64} | changed)
    setup = load_setup(asked, folder)
    setup.policy.close()
    return make_workers(EvaluationJob(setup), folder, units).name


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("changed", "units", "name"),
    [
        ({}, 1_000, "processes:4"),
        ({}, 999, "threads"),
        ({"concurrency": 63}, 10_000, "threads"),
        ({"rpm": 500.0}, 10_000, "threads"),
        ({"model": "tests.evals.toys:ScriptedModel"}, 10_000, "threads"),
        ({"editors": ("unedited", "object:rag")}, 10_000, "threads"),
        ({"workers": "processes:2"}, 1, "processes:2"),
    ],
)
def test_auto_takes_processes_for_large_runs_of_api_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], units: int, name: str
):
    assert chosen(tmp_path, monkeypatch, units, **changed) == name


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(("cores", "name"), [(1, "threads"), (2, "processes:2"), (64, f"processes:{MAX_PROCESSES}")])
def test_auto_takes_a_process_for_each_core_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, name: str
):
    assert chosen(tmp_path, monkeypatch, 1_000, cores) == name


@pytest.mark.parametrize("text", ["processes", "processes:0", "processes:x", "thread", "threads:2", "ray:", "rays"])
def test_workers_that_do_not_exist_are_refused(text: str):
    with pytest.raises(BadSettings, match="a number from 1 to 999" if text.startswith("processes:") else "--workers"):
        WorkersSpec.parse(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "workers"),
    [("single", "processes:2"), ("batch:3", "processes:4"), ("all", "processes:2"), ("sequential", "processes:4")],
)
def test_processes_give_the_records_of_threads(tmp_path: Path, mode: str, workers: str):
    editors = ("unedited", EDITOR, HEAVY, FLEETING_EDITOR, "rag")
    asked = config(mode=mode, editors=editors, benchmark_options={"cases": "9"})
    run(asked, tmp_path / "threads")
    run(asked.model_copy(update={"workers": workers}), tmp_path / "run")
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "threads")
    assert steps_of(tmp_path / "run") == steps_of(tmp_path / "threads")
    keys = [line["key"] for line in read_lines(tmp_path / "run", BASELINE)]
    assert len(keys) == len(set(keys)) == len(list(read_lines(tmp_path / "threads", BASELINE)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["single", "sequential"])
def test_tiny_gives_the_same_numbers_in_processes(tmp_path: Path, mode: str):
    asked = RunConfig(
        benchmark="tinyworld",
        editors=("unedited", "rag", "rome"),
        mode=mode,
        limit=2,
        overrides={"rome": {"v_num_grad_steps": 3}},
        perplexity_text="none",
        embedding="lexical",
    )
    run(asked, tmp_path / "threads")
    run(asked.model_copy(update={"workers": "processes:2"}), tmp_path / "run")
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "threads")


@pytest.mark.slow
def test_workers_import_what_the_driver_trusts_and_nothing_else(tmp_path: Path):
    asked = config(editors=("tests.evals.toys:Choosy",), workers="processes:2", benchmark_options={"cases": "2"})
    with pytest.raises(BadSettings, match="--trust tests.evals.toys:Choosy"):  # which a test trusts without a list
        run(asked, tmp_path / "run")
    registry.trust_names(["tests.evals.toys:Choosy"])
    assert run(asked, tmp_path / "run").finished


@pytest.mark.slow
def test_what_kills_every_worker_fails_alone(tmp_path: Path):
    asked = config(
        editors=(DEADLY,),
        fail_on_error="false",
        benchmark_options={"cases": "12"},
        workers="processes:2",
    )
    summary = run(asked, tmp_path / "run")
    assert (summary.finished, summary.failed) == (11, 1)
    (line,) = read_lines(tmp_path / "run", "errors.jsonl")
    assert line["error"] == "WorkerDied" and "SIGKILL" in line["message"]


@pytest.mark.slow
def test_workers_that_die_while_loading_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EMEND_TEST_DEADLY_START", str(os.getpid()))
    with pytest.raises(WorkerDied, match="while loading"):
        run(config(editors=(DEADLY,), workers="processes:2"), tmp_path / "run")
    assert not processes()


@pytest.mark.slow
def test_workers_end_with_their_driver(tmp_path: Path):
    words = f"run --benchmark {BENCHMARK} --editor {EDITOR} --model tests.evals.toys:ScriptedModel".split()
    words += f"--workers processes:2 --benchmark-option cases=3000 --out {tmp_path / 'run'}".split()
    driver = subprocess.Popen([sys.executable, "-m", "emend.evals.cli.main", *words], stderr=subprocess.DEVNULL)
    records, end = tmp_path / "run" / "records.jsonl", time.monotonic() + 240
    while not (records.exists() and records.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    workers, servers = workers_of(driver.pid), fork_servers_of(driver.pid)
    driver.kill()
    driver.wait()
    assert len(workers) == 2 and len(servers) == 1
    end = time.monotonic() + 60
    while any(map(runs, workers + servers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(runs, workers + servers))


@pytest.mark.parametrize(
    ("workers", "shares"),
    [(1, [[2, 3, 5, 7]]), (2, [[2, 3], [5, 7]]), (3, [[2], [3], [5]]), (6, [[2], [3], [5], [7], [2], [3]])],
)
def test_workers_divide_the_processors(monkeypatch: pytest.MonkeyPatch, workers: int, shares: list[list[int]]):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {2, 3, 5, 7}, raising=False)
    assert [share_of_processors(place, workers) for place in range(workers)] == shares
    monkeypatch.delattr(os, "sched_getaffinity")
    assert share_of_processors(0, workers) == []


class Affinities(Progress):
    """Processors that the workers keep to, by process."""

    def __init__(self) -> None:
        self.of: dict[int, set[int]] = {}

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        for worker in workers_of(os.getpid()):
            self.of[worker] = os.sched_getaffinity(worker)


@pytest.mark.slow
@pytest.mark.skipif(processors() < 2, reason="one processor cannot be divided")
def test_no_two_workers_keep_to_the_same_processor(tmp_path: Path):
    affinities = Affinities()
    run(config(workers="processes:2"), tmp_path / "run", affinities)
    one, other = affinities.of.values()
    assert len(one) == len(other) == processors() // 2 and not one & other
