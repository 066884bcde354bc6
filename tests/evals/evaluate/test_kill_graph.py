"""A run of MeLLo that is killed at every node and resumed: the records of an undisturbed one, and no call in vain.

EMEND_KILLS=20 kills twenty times under load; the usual few keep the suite quick.
"""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.journal import FILE
from emend.evals.log.lines import BASELINE
from emend.evals.log.records import read_lines, read_records
from tests.evals.fragile import CALLING, SILENT, Killer, config, work
from tests.evals.toy_runs import steps_of, untimed_records
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")

KILLS = int(os.environ.get("EMEND_KILLS", "3"))
AT_ONCE = 8
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["langchain_openai", "emend.memory.store.chroma", "tests.evals.fragile"])


@pytest.fixture
def killer() -> Killer:
    return Killer()


@pytest.fixture
def provider(killer: Killer) -> Iterator[Provider]:
    with Provider(killer, latency=0.002) as served:
        yield served


def same(one: Path, other: Path) -> None:
    """Both folders hold the same records and steps, and nothing twice."""
    assert untimed_records(one) == untimed_records(other) and steps_of(one) == steps_of(other)
    asked = [line["key"] for line in read_lines(one, BASELINE)]
    assert len(asked) == len(set(asked)) == len(list(read_lines(other, BASELINE)))
    assert not (one / FILE).exists() and not (other / FILE).exists(), "replies of finished units are kept"


def child(arguments: tuple[Any, ...], killer: Killer) -> Any:
    """A process that works on the run, and is the one to be killed."""
    process = CONTEXT.Process(target=work, args=arguments)
    process.start()
    assert process.pid
    killer.turn_on(process.pid)
    return process


@pytest.mark.slow
def test_killed_at_every_node_only_the_call_that_was_under_way_is_made_again(provider, killer, tmp_path):
    plan = config(provider.spec("chat"), 1, cases=5)
    work(plan, tmp_path / "whole")
    whole, before = provider.count, len(list(read_records(tmp_path / "whole")))
    repeated: list[int] = []
    for node in (*CALLING, *SILENT):
        killer.aim(node if node in CALLING else "", 1)
        process = child((plan, tmp_path / "run", (node, 2) if node in SILENT else ("", 0)), killer)
        process.join()
        assert process.exitcode == -signal.SIGKILL, node
        repeated.append(int(node in CALLING))
    killer.aim("", 0)
    assert len(list(read_records(tmp_path / "run"))) < before
    work(plan, tmp_path / "run")
    same(tmp_path / "run", tmp_path / "whole")
    assert provider.count - whole == whole + sum(repeated)


@pytest.mark.slow
def test_killed_under_load_at_most_the_calls_under_way_are_made_again(provider, killer, tmp_path):
    plan, rng = config(provider.spec("chat"), AT_ONCE, cases=40), random.Random()
    work(plan, tmp_path / "whole")
    whole, begun = provider.count, time.perf_counter()
    nodes, at = [*CALLING, "", ""], []
    for done in range(KILLS):
        left = 2 * whole - provider.count
        number = max(1, int(rng.uniform(0, 1.2) * left / (KILLS - done)))
        node = nodes[done % len(nodes)]
        killer.aim(node, max(1, number // 7))  # seven calls a case, and each node makes one or two of them
        process, target = child((plan, tmp_path / "run"), killer), provider.count + number
        while process.is_alive() and (node or provider.count < target):
            time.sleep(0.0005)
        time.sleep(0 if node else rng.uniform(0, 0.02))
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        at.append(f"{node or 'any'}:{provider.count - whole}")
    killer.aim("", 0)
    work(plan, tmp_path / "run")
    same(tmp_path / "run", tmp_path / "whole")
    again = provider.count - 2 * whole
    assert 0 <= again <= KILLS * AT_ONCE, at
    print(f"\nkilled {KILLS} times at calls {' '.join(at)} of {whole}, {again} calls made again, at most "
          f"{KILLS * AT_ONCE} were under way; {time.perf_counter() - begun:.1f} s")  # fmt: skip
