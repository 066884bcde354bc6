"""Choice of workers from `--workers`, including `auto`, and the thread workers of the driver's
process.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emend.evals.config.division import WorkersSpec
from emend.evals.jobs.job import Job, units_of_job_at_once
from emend.evals.jobs.workers.base import RunState, Workers, WorkerSetup
from emend.evals.jobs.workers.driver import DealtWorkers
from emend.evals.jobs.workers.processes import ProcessTransport, processors
from emend.memory.errors import BadSettings
from emend.memory.registry import trusted_names

# Folder of the workers' files, in the run folder.
MEMORY = "memory"


class ThreadWorkers:
    """Workers as threads that share one model, as many as the run's concurrency."""

    name = "threads"
    cpu_seconds = 0.0

    def evaluate(self, state: RunState) -> None:
        """Evaluate all units."""
        job, context = state.job, state.context
        pool = ThreadPoolExecutor(units_of_job_at_once(job), "emend-unit")
        try:
            job.evaluate(context, pool)
        finally:
            context.stop.set()
            with job.policy.ending():
                pool.shutdown(wait=True, cancel_futures=True)


# Maximum number of processes that `auto` chooses.
MAX_PROCESSES = 4
# Measured with 64 concurrent calls of 0.2 s on four idle cores (scripts/benchmarks/bench_workers.py
# wait): two processes are 1.9 times as fast as threads, four 2.1 times, and they are ahead before
# 750 units, including their start.
MIN_CALLS, MIN_UNITS = 64, 1_000


def make_workers(job: Job, folder: Path, units: int) -> Workers:
    """Create the workers of a run.

    Args:
        job: of the run.
        folder: of the run.
        units: number of units to evaluate.

    Raises:
        BadSettings: a component is an object of this process, but the workers are other processes.
    """
    spec = job.workers
    if spec.kind == "auto" and not job.objects and _processes_pay(job, units):
        spec = WorkersSpec("processes", min(MAX_PROCESSES, processors()))
    if spec.kind in ("auto", "threads"):
        return ThreadWorkers()
    if job.objects:
        raise BadSettings(
            f"{job.objects[0]} is an object of this process, which --workers {spec} cannot use: "
            "define it in a module that can be imported, or give --workers threads."
        )
    return _actors(spec) if spec.kind == "ray" else _processes(spec.number, folder)


def _processes_pay(job: Job, units: int) -> bool:
    """Return whether a single process is too slow for the calls that the run's concurrency
    allows.
    """
    is_large = job.concurrency >= MIN_CALLS and units >= MIN_UNITS and processors() > 1
    is_limited = job.policy.limiter.rpm is not None
    return is_large and job.calls_providers and not is_limited and not job.edits_weights


def _processes(count: int, folder: Path) -> Workers:
    folders = folder / MEMORY / "workers"

    def set_up(state: RunState, position: int, number: int) -> WorkerSetup:
        return worker_setup(state, position, count, str(folders / str(number)))

    transport = ProcessTransport(count, folders)
    return DealtWorkers(f"processes:{count}", transport, set_up, count)


def _actors(spec: WorkersSpec) -> Workers:
    from emend.evals.jobs.workers.ray_cluster import RayTransport

    transport = RayTransport(spec.address, spec.gpus)
    count = transport.places

    def set_up(state: RunState, position: int, number: int) -> WorkerSetup:
        return worker_setup(state, position, count, None)

    return DealtWorkers(f"ray, {count} workers", transport, set_up, count)


def worker_setup(state: RunState, position: int, workers: int, folder: str | None) -> WorkerSetup:
    """Return the setup of a worker; the concurrent calls of all workers add up to the run's
    limit.
    """
    each, rest = divmod(state.job.concurrency, workers)
    concurrency = max(1, each + (position < rest))
    return WorkerSetup(
        position=position,
        job=state.job.remote(concurrency),
        folder=folder,
        trusted=trusted_names(),
        keeps_replies=state.journal is not None,
        replays=state.journal is not None and bool(state.journal.units()),
    )
