"""Choice of workers: what `--workers` says, and what `auto` does."""

import shutil
from pathlib import Path

from emend.evals.log.config import RunConfig, WorkersSpec
from emend.evals.runner.components import MEMORY, RunComponents
from emend.evals.workers.base import RunState, Workers, WorkerSetup
from emend.evals.workers.driver import DealtWorkers
from emend.evals.workers.threads import ThreadWorkers
from emend.memory.errors import BadSettings
from emend.memory.registry import trusted_names

LOCAL = ("object:", "__main__:")
"""How names of components begin that exist in this process alone."""


def make_workers(components: RunComponents, folder: Path, has_model: bool = False) -> Workers:
    """Make the workers of a run.

    Args:
        components: of the run.
        folder: of the run.
        has_model: whether an object takes the place of the configuration's model.

    Raises:
        BadSettings: a component is an object of this process, and the workers are others.
    """
    config = components.config
    spec = WorkersSpec.parse(config.workers, config.gpus_per_worker)
    if spec.kind in ("auto", "threads"):
        return ThreadWorkers()
    names = [config.benchmark, *config.editors, config.model, config.retriever, config.embedding]
    if objects := ["the model"] * has_model + [name for name in names if name.startswith(LOCAL)]:
        raise BadSettings(
            f"{objects[0]} is an object of this process, which --workers {config.workers} cannot use: define it in a "
            "module that can be imported, or give --workers threads."
        )
    return _actors(config, spec.address) if spec.kind == "ray" else _processes(spec.number, folder)


def _processes(count: int, folder: Path) -> Workers:
    from emend.evals.workers.processes import ProcessTransport

    memories = folder / MEMORY / "workers"

    def setup(state: RunState, place: int, number: int) -> WorkerSetup:
        return worker_setup(state, place, count, str(memories / str(number)))

    shutil.rmtree(memories, ignore_errors=True)  # of a killed run
    return DealtWorkers(f"processes:{count}", ProcessTransport(count), setup, count)


def _actors(config: RunConfig, address: str) -> Workers:
    from emend.evals.workers.ray_cluster import RayTransport

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
        config=components.config.model_copy(update={"concurrency": max(1, whole + (place < rest))}),
        passes=tuple(editor_pass.content_id for editor_pass in components.passes),
        memory=memory,
        trusted=trusted_names(),
        keeps_replies=state.journal is not None,
        replays=state.journal is not None and bool(state.journal.units()),
        unedited_measured=state.unedited_measured,
    )
