"""Choice of workers: what `--workers` says, and what `auto` does; threads are the driver's own."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emend.evals.config.run_config import WorkersSpec
from emend.evals.run.evaluate import PassEvaluator
from emend.evals.run.resources import MEMORY
from emend.evals.run.run_setup import RunSetup
from emend.evals.run.workers.base import RunState, Workers, WorkerSetup
from emend.evals.run.workers.driver import DealtWorkers
from emend.evals.run.workers.processes import ProcessTransport, processors
from emend.memory.errors import BadSettings
from emend.memory.registry import trusted_names


class ThreadWorkers:
    """Threads that share one model; as many as the run's concurrency."""

    name = "threads"
    cpu_seconds = 0.0

    def evaluate(self, state: RunState) -> None:
        """Evaluate pass after pass."""
        setup, context = state.context.setup, state.context
        pool = ThreadPoolExecutor(setup.units_at_once, "emend-unit")
        try:
            for editor_pass in setup.share_passes:
                if not setup.is_finished(editor_pass):
                    PassEvaluator(editor_pass, context, pool).evaluate()
        finally:
            context.stop.set()
            with setup.policy.ending():
                pool.shutdown(wait=True, cancel_futures=True)


MAX_PROCESSES = 4
"""Largest number of processes that are chosen."""
MIN_CALLS, MIN_UNITS = 64, 1_000
"""Measured with 64 calls of 0.2 s at a time on four idle cores (scripts/benchmarks/bench_workers.py wait): two
processes ask 1.9 times as fast as threads, four 2.1 times, and they are ahead before 750 units have ended, start
included."""


def make_workers(setup: RunSetup, folder: Path, units: int) -> Workers:
    """Make the workers of a run.

    Args:
        setup: of the run.
        folder: of the run.
        units: number of units that are to be evaluated.

    Raises:
        BadSettings: a component is an object of this process, and the workers are others.
    """
    spec = setup.workers
    if spec.kind == "auto" and not setup.objects and _processes_pay(setup, units):
        spec = WorkersSpec("processes", min(MAX_PROCESSES, processors()))
    if spec.kind in ("auto", "threads"):
        return ThreadWorkers()
    if setup.objects:
        raise BadSettings(
            f"{setup.objects[0]} is an object of this process, which --workers {spec} cannot use: define it in a "
            "module that can be imported, or give --workers threads."
        )
    return _actors(spec) if spec.kind == "ray" else _processes(spec.number, folder)


def _processes_pay(setup: RunSetup, units: int) -> bool:
    """Return whether one process could not make the calls of a run as fast as its concurrency allows."""
    is_large = setup.concurrency >= MIN_CALLS and units >= MIN_UNITS and processors() > 1
    edits_weights = any(editor_pass.editor.needs_weights for editor_pass in setup.passes)
    return is_large and setup.calls_providers and setup.policy.limiter.rpm is None and not edits_weights


def _processes(count: int, folder: Path) -> Workers:
    memories = folder / MEMORY / "workers"

    def set_up(state: RunState, place: int, number: int) -> WorkerSetup:
        return worker_setup(state, place, count, str(memories / str(number)))

    return DealtWorkers(f"processes:{count}", ProcessTransport(count, memories), set_up, count)


def _actors(spec: WorkersSpec) -> Workers:
    from emend.evals.run.workers.ray_cluster import RayTransport

    transport = RayTransport(spec.address, spec.gpus)
    count = transport.places

    def set_up(state: RunState, place: int, number: int) -> WorkerSetup:
        return worker_setup(state, place, count, None)

    return DealtWorkers(f"ray, {count} workers", transport, set_up, count)


def worker_setup(state: RunState, place: int, workers: int, memory: str | None) -> WorkerSetup:
    """Set up a worker: the calls at a time of all workers together are the run's."""
    setup = state.context.setup
    whole, rest = divmod(setup.concurrency, workers)
    return WorkerSetup(
        place=place,
        config=setup.config.model_copy(update={"concurrency": max(1, whole + (place < rest))}),
        passes=tuple(editor_pass.content_id for editor_pass in setup.passes),
        memory=memory,
        trusted=trusted_names(),
        keeps_replies=state.journal is not None,
        replays=state.journal is not None and bool(state.journal.units()),
        unedited_measured=state.unedited_measured,
    )
