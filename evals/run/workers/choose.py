"""Choice of workers: what `--workers` says, and what `auto` does."""

from pathlib import Path

from emend.evals.config.run_config import RunConfig, WorkersSpec
from emend.evals.run.setup.components import MEMORY, RunComponents
from emend.evals.run.workers.base import RunState, Workers, WorkerSetup
from emend.evals.run.workers.driver import DealtWorkers
from emend.evals.run.workers.processes import ProcessTransport, processors
from emend.evals.run.workers.threads import ThreadWorkers
from emend.memory.errors import BadSettings
from emend.memory.registry import trusted_names

LOCAL = ("object:", "__main__:")
"""How names of components begin that exist in this process alone."""


MOST_PROCESSES = 4
"""Largest number of processes that are chosen."""
MIN_CALLS, MIN_UNITS = 64, 1_000
"""Measured with 64 calls of 0.2 s at a time on four idle cores (scripts/benchmarks/bench_workers.py wait): two
processes ask 1.9 times as fast as threads, four 2.1 times, and they are ahead before 750 units have ended, start
included."""


def make_workers(components: RunComponents, folder: Path, units: int, has_model: bool = False) -> Workers:
    """Make the workers of a run.

    Args:
        components: of the run.
        folder: of the run.
        units: number of units that are to be evaluated.
        has_model: whether an object takes the place of the configuration's model.

    Raises:
        BadSettings: a component is an object of this process, and the workers are others.
    """
    config = components.config
    spec = WorkersSpec.parse(config.workers, config.gpus_per_worker)
    names = [config.benchmark, *config.editors, config.model, config.retriever, config.embedding]
    objects = ["the model"] * has_model + [name for name in names if name.startswith(LOCAL)]
    if spec.kind == "auto" and not objects and _processes_pay(components, units):
        spec = WorkersSpec("processes", min(MOST_PROCESSES, processors()))
    if spec.kind in ("auto", "threads"):
        return ThreadWorkers()
    if objects:
        raise BadSettings(
            f"{objects[0]} is an object of this process, which --workers {config.workers} cannot use: define it in a "
            "module that can be imported, or give --workers threads."
        )
    return _actors(config, spec.address) if spec.kind == "ray" else _processes(spec.number, folder)


def _processes_pay(components: RunComponents, units: int) -> bool:
    """Return whether one process could not make the calls of a run as fast as its concurrency allows."""
    config = components.config
    is_large = config.concurrency >= MIN_CALLS and units >= MIN_UNITS and processors() > 1
    edits_weights = any(editor_pass.editor.needs_weights for editor_pass in components.passes)
    return is_large and components.calls_providers and config.rpm is None and not edits_weights


def _processes(count: int, folder: Path) -> Workers:
    memories = folder / MEMORY / "workers"

    def setup(state: RunState, place: int, number: int) -> WorkerSetup:
        return worker_setup(state, place, count, str(memories / str(number)))

    return DealtWorkers(f"processes:{count}", ProcessTransport(count, memories), setup, count)


def _actors(config: RunConfig, address: str) -> Workers:
    from emend.evals.run.workers.ray_cluster import RayTransport

    transport = RayTransport(address, config.gpus_per_worker)
    count = transport.places

    def setup(state: RunState, place: int, number: int) -> WorkerSetup:
        return worker_setup(state, place, count, None)

    return DealtWorkers(f"ray, {count} workers", transport, setup, count)


def worker_setup(state: RunState, place: int, workers: int, memory: str | None) -> WorkerSetup:
    """Set up a worker: the calls at a time of all workers together are the run's."""
    components = state.context.components
    whole, rest = divmod(components.config.concurrency, workers)
    return WorkerSetup(
        place=place,
        config=components.config.model_copy(update={"concurrency": max(1, whole + (place < rest))}),
        passes=tuple(editor_pass.content_id for editor_pass in components.passes),
        memory=memory,
        trusted=trusted_names(),
        keeps_replies=state.journal is not None,
        replays=state.journal is not None and bool(state.journal.units()),
        unedited_measured=state.unedited_measured,
    )
