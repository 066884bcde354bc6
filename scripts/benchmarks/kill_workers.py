"""Kills workers, drivers and Ray nodes of runs at random moments, and compares the runs with undisturbed ones.

Every kill is a SIGKILL: of a worker, of the fork server that starts workers, of the driver, which is then started
again, or of a Ray node (its raylet, with the actors on it), which another one replaces. At the end records, steps and
baseline must be those of a run in threads, and no more calls may have been made again than were under way when
something was killed.

    python scripts/benchmarks/kill_workers.py --kills 100 --seed 0
"""

import argparse
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.agents.providers.journal import FILE  # noqa: E402
from emend.evals.log.lines import RECORDS  # noqa: E402
from scripts.benchmarks.storm_kills import CONTEXT, Contents, work  # noqa: E402
from tests.evals.toys import BENCHMARK  # noqa: E402
from tests.provider.server import Provider  # noqa: E402
from tests.provider.speaking import believes  # noqa: E402

CASES, CONCURRENCY, LATENCY = 24, 8, 0.05
SECONDS = 240
"""Maximum time of one process."""
KILLS_A_RUN = 10
MODES = ("single", "batch:5", "all", "sequential")
KINDS = ("processes:2", "processes:4", "ray")
FORK_SERVER = b"workers.fork_server"
"""In the command line of a fork server, and so of its copies."""
NODES, CPUS = 2, 2
"""Nodes of the Ray cluster besides its head, which evaluates nothing, and processors of each."""
STARTS, PATIENCE = 8, 3
"""Attempts at starting a part of Ray, and how often its own wait of half a minute, too little under a high load."""


class SlowClock:
    """The module `time` with a slow clock, for waits whose seconds are a constant of somebody's code."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        """Seconds, of which each takes `PATIENCE`."""
        return time.monotonic() / PATIENCE


def prepare_ray() -> None:
    """Make Ray use 127.0.0.1 where it is told to, and not the host's address in its place, and wait for its nodes."""
    from ray._private import node, services
    from ray.cluster_utils import Cluster

    services.resolve_ip_for_localhost = lambda host: host
    vars(node)["time"] = SlowClock()
    Cluster._wait_for_node.__defaults__ = (30.0 * PATIENCE,)


def start_patiently(start: Callable[[], Any], subject: str) -> Any:
    """Return what `start` does; a start that Ray gives up is made again, and said on standard error.

    Raises:
        RuntimeError: no attempt succeeded.
    """
    reason = ""
    for attempt in range(1, STARTS + 1):
        try:
            return start()
        except Exception as error:  # Ray raises plain ones
            reason = str(error).strip().partition("\n")[0]
            sys.stderr.write(f"{subject} of Ray did not start, attempt {attempt} of {STARTS}: {reason}\n")
            time.sleep(5)
    raise RuntimeError(f"{subject} of Ray did not start in {STARTS} attempts: {reason}")


class RayNodes:
    """A Ray cluster on this machine whose nodes can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        prepare_ray()
        self._here: dict[str, Any] = {"node_ip_address": "127.0.0.1"}
        head = {"num_cpus": 0, "include_dashboard": False} | self._here
        self._cluster: Any = start_patiently(lambda: Cluster(True, head_node_args=head), "the head")
        self._nodes = [self._start_node() for _ in range(NODES)]
        self.address = str(self._cluster.address)

    def _start_node(self) -> Any:
        return start_patiently(lambda: self._cluster.add_node(num_cpus=CPUS, **self._here), "a node")

    def kill(self, rng: random.Random) -> None:
        """Kill a node, and put another one in its place."""
        node = self._nodes.pop(rng.randrange(len(self._nodes)))
        self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.append(self._start_node())

    def close(self) -> None:
        """End the cluster."""
        self._cluster.shutdown()


def drive(words: list[str], address: str) -> None:
    """Run the command line in a process of its own; on a cluster of this machine alone, where there is an address."""
    if address:
        import ray

        prepare_ray()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        start_patiently(lambda: ray.init(address=address, _node_ip_address="127.0.0.1", **options), "a driver")
    work(words)


def words_of(mode: str, workers: str, spec: str, folder: Path) -> list[str]:
    """Command line of a run, which resumes the run that is in the folder."""
    words = f"run --benchmark {BENCHMARK} --editor rag --editor unedited --mode {mode} --model {spec}".split()
    words += f"--benchmark-option cases={CASES} --embedding lexical --retriever bm25 --workers {workers}".split()
    words += ["--reevaluate-at", "every:10,end"] if mode == "sequential" else []
    return [*words, f"--concurrency={CONCURRENCY}", "--fail-on-error", "false", "--out", str(folder)]


def parent_of(pid: int) -> int:
    """Return a process's parent; 0 for one that has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return 0
    return 0 if state == "Z" else int(parent)


def workers_of(driver: int) -> list[int]:
    """Return the processes that work for a driver: copies of its fork server, or actors of this process's clusters."""
    found = []
    for pid, command in _commands():
        is_copy = FORK_SERVER in command and parent_of(parent_of(pid)) == driver
        if is_copy or (command.startswith(b"ray::RayWorker") and parent_of(parent_of(pid)) == os.getpid()):
            found.append(pid)
    return sorted(found)


def fork_servers_of(driver: int) -> list[int]:
    """Return the processes that start a driver's workers: one, once it has any."""
    return [pid for pid, command in _commands() if FORK_SERVER in command and parent_of(pid) == driver]


def _commands() -> Iterator[tuple[int, bytes]]:
    for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        with suppress(OSError):
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes()


class Storm:
    """Kills in runs of one kind and mode.

    Args:
        kind: of the workers.
        mode: of the runs.
        provider: that they ask.
        nodes: the Ray cluster, if the workers are actors.
        rng: chooses targets and moments.
    """

    def __init__(self, kind: str, mode: str, provider: Provider, nodes: RayNodes | None, rng: random.Random) -> None:
        self.kind, self.mode, self.provider, self.nodes, self.rng = kind, mode, provider, nodes, rng
        self.targets = cycle(["worker", "driver", "worker", "node"] if nodes else ["worker", "fork server", "driver"])
        self.counts = Counter[str]()

    def start(self, folder: Path, kind: str = "") -> Any:
        """Start a driver."""
        words = words_of(self.mode, kind or self.kind, self.provider.spec("chat"), folder)
        address = self.nodes.address if self.nodes and not kind else ""
        process = CONTEXT.Process(target=drive, args=(words, address))
        process.start()
        return process

    def finish(self, process: Any) -> None:
        """Wait until a driver ends by itself; two workers in a row that were killed while loading end it with 2."""
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            raise AssertionError(f"{self.kind}, {self.mode}: the driver did not end within {SECONDS} s")
        assert process.exitcode in (0, 2), f"{self.kind}, {self.mode}: exit code {process.exitcode}"

    def run(self, kills: int, folder: Path, whole: Contents, calls: int) -> None:
        """Kill so many times in one run, finish it, and compare it.

        Raises:
            AssertionError: something was lost, doubled, or asked for again without need.
        """
        before, again = self.provider.count, 0
        process = self.start(folder)
        for left in range(kills, 0, -1):
            missing = max(1, calls - (self.provider.count - before))
            self._wait_for(process, self.rng.randint(0, max(1, 2 * missing // (left + 1))))
            if not process.is_alive():
                process = self.start(folder)
                self._wait_for(process, 1)
            again += self._kill(process)
            if not process.is_alive():
                process = self.start(folder)
        self.finish(process)
        self.finish(self.start(folder, "threads"))  # for units over which two workers were killed
        repeated = self.provider.count - before - calls
        assert 0 <= repeated <= again, f"{self.kind}, {self.mode}: {repeated} calls again, {again} were under way"
        difference = [name for name, a, b in zip(Contents._fields, whole, Contents.of(folder), strict=True) if a != b]
        assert not difference, f"{self.kind}, {self.mode}: other {', '.join(difference)}"
        assert (folder / RECORDS).read_bytes().count(b"\n") == len(whole.records), "lines twice"
        assert not (folder / FILE).exists(), "replies of finished units are left"
        self.counts += Counter({"runs": 1, "calls under way": again, "calls again": repeated})

    def _wait_for(self, process: Any, calls: int) -> None:
        """Wait until so many more calls have come, and a random moment more."""
        target, limit = self.provider.count + calls, time.monotonic() + SECONDS
        while process.is_alive() and self.provider.count < target and time.monotonic() < limit:
            time.sleep(0.002)
        time.sleep(self.rng.uniform(0, 0.1))

    def _kill(self, process: Any) -> int:
        """Kill the next target; return the number of calls that may have been under way there."""
        target, workers = next(self.targets), workers_of(process.pid)
        share = -(-CONCURRENCY // (NODES * CPUS if self.nodes else int(self.kind.partition(":")[2])))
        if target == "node" and self.nodes:
            self.nodes.kill(self.rng)
            under_way = CPUS * share
        elif target == "fork server" and (servers := fork_servers_of(process.pid)):
            os.kill(servers[0], signal.SIGKILL)
            under_way = 0
        elif target == "worker" and workers:
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(workers), signal.SIGKILL)
            under_way = share
        else:
            target, under_way = "driver", CONCURRENCY
            process.kill()
            process.join()
            while any(map(parent_of, workers)):  # they see that their driver is gone
                time.sleep(0.01)
        self.counts[target] += 1
        return under_way


@contextmanager
def cluster_for(kind: str) -> Iterator[RayNodes | None]:
    """Start a Ray cluster for the kind of workers that needs one."""
    nodes = RayNodes() if kind == "ray" else None
    try:
        yield nodes
    finally:
        if nodes:
            nodes.close()


def storm(kills: int, seed: int, workplace: Path, kinds: tuple[str, ...] = KINDS) -> Counter[str]:
    """Kill so many times in all; return how often each target was killed, and how many calls were made again."""
    total, rng = Counter[str](), random.Random(seed)
    for place, kind in enumerate(kinds):
        goal = kills // len(kinds) + (place < kills % len(kinds))
        with Provider(believes, latency=LATENCY) as provider, cluster_for(kind) as nodes:
            storms = [Storm(kind, mode, provider, nodes, rng) for mode in MODES]
            wholes: dict[str, tuple[Contents, int]] = {}
            done = turn = 0
            while done < goal:
                each, folder = storms[turn % len(MODES)], workplace / f"{kind}-{turn}".replace(":", "-")
                if each.mode not in wholes:
                    before, out = provider.count, workplace / f"{kind}-{each.mode}-whole".replace(":", "-")
                    each.finish(each.start(out, "threads"))
                    wholes[each.mode] = Contents.of(out), provider.count - before
                number = min(goal - done, rng.randint(2, KILLS_A_RUN))
                each.run(number, folder, *wholes[each.mode])
                done, turn = done + number, turn + 1
                print(f"{kind}, {each.mode}: {done} of {goal} kills, records as undisturbed", flush=True)
            total += sum((each.counts for each in storms), Counter[str]())
    return total


def main() -> None:
    """Storm, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="number of kills (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of targets and moments (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", default=KINDS, help="kinds of workers (default: %(default)s)")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as workplace:
        counts = storm(options.kills, options.seed, Path(workplace), tuple(options.kinds))
    print(f"{dict(counts)}; 0 records lost, 0 doubled, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
