"""Workers that are threads of the driver: the one that writes results also asks."""

from concurrent.futures import ThreadPoolExecutor

from emend.evals.run.evaluate import PassEvaluator
from emend.evals.run.workers.base import RunState


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
