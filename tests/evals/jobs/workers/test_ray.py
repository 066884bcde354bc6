"""Runs on a Ray cluster of this machine: the same records as in threads, whatever dies meanwhile."""

import os
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.jobs.progress import Progress
from emend.evals.log.lines import COSTS
from emend.evals.log.records import read_lines
from emend.memory.errors import BadSettings
from scripts.benchmarks.kill_workers import workers_of
from tests.evals.toy_runs import steps_of, untimed_records
from tests.evals.toys import BENCHMARK, EDITOR, FLEETING_EDITOR, HEAVY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'emend-eval[ray]'"),
]


def config(**changed: object) -> RunConfig:
    values: dict[str, object] = {"benchmark": BENCHMARK, "editors": ("unedited", EDITOR, HEAVY, "rag")}
    values |= {"model": "tests.evals.toys:ScriptedModel", "embedding": "lexical", "benchmark_options": {"cases": "9"}}
    return RunConfig.model_validate(values | changed)


@pytest.fixture(scope="module", params=[1, 4])
def cluster(request: pytest.FixtureRequest) -> Iterator[int]:
    """Number of processors of a cluster on this machine, which claims to have a GPU."""
    import ray

    ray.init("local", num_cpus=request.param, num_gpus=1, _node_ip_address="127.0.0.1", log_to_driver=False)
    yield request.param
    ray.shutdown()


class Killer(Progress):
    """Kills a worker after the fourth unit."""

    def __init__(self) -> None:
        self.units = 0

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        self.units += 1
        if self.units == 4:
            os.kill(workers_of(os.getpid())[0], signal.SIGKILL)


@pytest.mark.parametrize("mode", ["single", "batch:3", "all", "sequential"])
def test_actors_give_the_records_of_threads_though_one_is_killed(tmp_path: Path, cluster: int, mode: str):
    asked = config(mode=mode, editors=("unedited", EDITOR, HEAVY, FLEETING_EDITOR, "rag"))
    run(asked, tmp_path / "threads")
    summary = run(asked.model_copy(update={"workers": "ray"}), tmp_path / "run", Killer())
    assert summary.finished == summary.units
    for _ in range(100):  # Ray ends them meanwhile
        if not workers_of(os.getpid()):
            break
        time.sleep(0.1)
    assert not workers_of(os.getpid())
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "threads")
    assert steps_of(tmp_path / "run") == steps_of(tmp_path / "threads")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9"])
def test_an_address_where_nothing_listens_is_refused_at_once(address: str):
    from emend.evals.jobs.workers.ray_cluster import _refuse_unreachable

    with pytest.raises(BadSettings, match=f"no Ray cluster at '{address}'.*ray status"):
        _refuse_unreachable(address)
    for other in ("", "auto", "local"):
        _refuse_unreachable(other)


@pytest.mark.parametrize(("address", "variable"), [("127.0.0.1:9", ""), ("", "127.0.0.1:9")])
def test_an_unreachable_cluster_is_refused_before_ray_waits_for_it(
    address: str, variable: str, monkeypatch: pytest.MonkeyPatch
):
    import ray

    from emend.evals.jobs.workers.ray_cluster import RayTransport

    monkeypatch.setenv("RAY_ADDRESS", variable)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # the cluster of other tests may run
    with pytest.raises(BadSettings, match="no Ray cluster at '127.0.0.1:9'.*ray status"):
        RayTransport(address, 0)


def test_workers_share_the_gpus_of_a_cluster(tmp_path: Path, cluster: int):
    run(config(workers="ray", gpus_per_worker=0.5), tmp_path / "run")
    workers = [line["workers"] for line in read_lines(tmp_path / "run", COSTS) if line["act"] == "run"]
    assert workers == [f"ray, {min(cluster, 2)} workers"]
    with pytest.raises(BadSettings, match="cannot hold a worker with a processor and 2 GPUs"):
        run(config(workers="ray", gpus_per_worker=2), tmp_path / "other")


@pytest.mark.parametrize(
    ("address", "message"),
    [("", "Ray did not start on this machine.*--workers processes"), ("10.0.0.1:9", "no Ray cluster at '10.0.0.1:9'")],
)
def test_a_cluster_that_does_not_start_is_an_error_with_what_to_do(
    address: str, message: str, monkeypatch: pytest.MonkeyPatch
):
    import ray

    from emend.evals.jobs.workers import ray_cluster

    def give_up(**options: object) -> None:
        raise RuntimeError("The current node timed out during startup. This could happen because of load.\nMore.")

    monkeypatch.setattr(ray, "init", give_up)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_cluster, "_refuse_unreachable", lambda address: None)
    with pytest.raises(BadSettings, match=message) as refused:
        ray_cluster.RayTransport(address, 0)
    assert "\n" not in str(refused.value)
