"""Estimates of a run over a stream before anything is asked: calls of systems that read turns, and of the answers."""

import tempfile
from pathlib import Path

from emend.agents.llm import check_spec
from emend.evals.case import Case
from emend.evals.config.run_config import RunConfig
from emend.evals.log.records import read_records
from emend.evals.results.estimates.dry_run import (
    COUNTS,
    SAMPLE,
    DryRun,
    EstimatedRow,
    StandIn,
    changed_config,
    make_stand_in,
    priced,
    usual_answer,
    without_warnings,
)
from emend.evals.run.run import run
from emend.evals.stream.benchmark import PLACES, SETTING, Stream
from emend.memory.probe import Usage


def dry_run_stream(config: RunConfig) -> DryRun:
    """Estimate a run over a stream: each system observes the turns, and a stand-in answers at `SAMPLE` places of it.

    What answers need grows with the number of questions, and what a system needs that reads turns with the model with
    that of the turns.

    Raises:
        EmendError: a name, setting or file is wrong.
    """
    check_spec(config.model)
    cases = _cases(config)
    sampled = _sample_config(config, min(SAMPLE, len(cases)))
    places = _cases(sampled)
    questions, turns = _questions(cases) / _questions(places), _turns(cases) / _turns(places)
    rows = []
    for editor in config.editors:
        model = make_stand_in(config, usual_answer(cases))
        answers = _ask(changed_config(sampled, (editor,)), model)
        used = {name: (getattr(answers, name), getattr(model.usage, name)) for name in COUNTS}
        counts = {
            name: round(config.repeats * (questions * by_answers + turns * (total - by_answers)))
            for name, (by_answers, total) in used.items()
        }
        rows.append(EstimatedRow(setting=SETTING, editor=editor, units=config.repeats * len(cases), **counts))
    estimate = priced(config, tuple(rows))
    return estimate.model_copy(update={"sample": f"{len(places)} places, spread over the stream"})


def _cases(config: RunConfig) -> list[Case]:
    return list(Stream(None, config.benchmark_options).cases(SETTING, config.limit, config.seed))


def _sample_config(config: RunConfig, places: int) -> RunConfig:
    return changed_config(
        config,
        config.editors,
        benchmark_options={**config.benchmark_options, PLACES: str(places)},
        repeats=1,
        memory_server=None,
        share=None,
        fail_on_error="false",
    )


def _ask(config: RunConfig, model: StandIn) -> Usage:
    """Run a sample and return what its answers used; the model counts what observing turns used, too."""
    usage = Usage()
    with tempfile.TemporaryDirectory(prefix="emend-dry-run-") as home:
        with without_warnings():  # of a sample; the run will have its own
            run(config, Path(home) / "run", model=model)
        for record in read_records(Path(home) / "run"):
            usage = usage.plus(record.usage)
    return usage


def _questions(cases: list[Case]) -> int:
    return sum(len(case.probes) for case in cases)


def _turns(cases: list[Case]) -> int:
    return sum(len(case.edits) for case in cases)
