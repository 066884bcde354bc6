"""Estimate of a run, from its counted cases and a sample answered by a stand-in."""

import tempfile
import time
from itertools import chain
from pathlib import Path

from emend.agents.llm import check_spec, is_local_spec
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.ability import load_abilities
from emend.evals.evaluate.prepare import list_cases
from emend.evals.evaluate.run import run
from emend.evals.evaluate.setup.run_setup import load_setup
from emend.evals.log.manifest import find_sample_seed
from emend.evals.results.dry_run.estimate import DryRun
from emend.evals.results.dry_run.price import priced
from emend.evals.results.dry_run.sample import (
    changed_config,
    first_cases,
    sample_config,
    without_warnings,
    writes_weights,
)
from emend.evals.results.dry_run.stand_in import StandIn, make_stand_in, usual_answer
from emend.evals.results.dry_run.units import estimated_rows


def dry_run(config: RunConfig) -> DryRun:
    """Estimate a run by counting its cases and asking a stand-in the first ones.

    An editor of weights is estimated as the unedited model, since it makes the same calls.

    Raises:
        EmendError: a name, setting or file is wrong.
    """
    check_spec(config.model)
    load_abilities(config.ability, any(map(writes_weights, config.editors)))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="emend-dry-run-") as home:
        counting = changed_config(config, ("unedited",), memory_server=None, share=None)
        setup = load_setup(counting, Path(home), StandIn())
        cases = list_cases(setup, None)
        sample = sample_config(config, setup)
        firsts = chain.from_iterable(first_cases(setup, name) for name in setup.source.settings)
        model = make_stand_in(config.model_spec, usual_answer(firsts))
        with without_warnings():  # the run itself logs its warnings
            run(sample, Path(home) / "run", model=model)
        rows = tuple(estimated_rows(config, Path(home) / "run", cases, setup, model.usage))
    needs: tuple[str, ...] = ()
    if is_local_spec(config.model):
        from emend.evals.results.dry_run.needs import need_lines  # imports torch

        needs = tuple(need_lines(config))
    facts = {"needs": needs, "sample_seed": find_sample_seed(config, cases)}
    estimate = priced(config, rows).model_copy(update=facts)
    if estimate.seconds is None or not is_local_spec(config.model):
        return estimate
    # A real run has the same start-up: it imports, reads the data, opens a memory and makes a
    # report.
    return estimate.model_copy(update={"seconds": estimate.seconds + time.perf_counter() - started})
