"""The fork server: what it may import, and that a run does without it."""

import subprocess
import sys
from pathlib import Path

import pytest

from emend.evals.evaluate.run import run
from emend.evals.jobs.workers.processes import LIBRARIES, WORKER
from scripts.benchmarks.kill_workers import fork_servers_of, workers_of
from tests.evals.jobs.workers.test_processes import Killer, config, processes

pytestmark = pytest.mark.slow


def test_it_imports_nothing_that_takes_hold_of_a_gpu():
    code = """if True:
        import sys, threading
        from contextlib import suppress
        from importlib import import_module
        for name in sys.argv[1:]:
            with suppress(ImportError):
                import_module(name)
        assert "chromadb" in sys.modules and "langgraph" in sys.modules
        assert "torch" not in sys.modules and threading.active_count() == 1, threading.enumerate()
    """
    subprocess.run([sys.executable, "-c", code, WORKER, *sorted(LIBRARIES)], check=True)


def test_workers_go_on_without_their_fork_server_and_new_ones_get_another(tmp_path: Path):
    server = Killer(fork_servers_of, every=2, times=1)
    assert run(config(workers="processes:2"), tmp_path / "one", server).failed == 0 and not server.left
    either = Killer(lambda driver: fork_servers_of(driver) or workers_of(driver), every=4, times=3)
    summary = run(config(workers="processes:2"), tmp_path / "both", either)
    assert summary.finished == summary.units and not summary.failed and not processes()
