"""Cost estimate for a run over a stream, before it starts."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.agents.llm import check_model_settings, check_spec
from emend.evals.log.lines import TURNS
from emend.evals.metrics.expected_answers import UNKNOWN
from emend.evals.results.dry_run.estimate import COUNTS, DryRun, EstimatedRow
from emend.evals.results.dry_run.local_model import absence
from emend.evals.results.dry_run.price import priced
from emend.evals.results.dry_run.sample import SAMPLE, without_warnings
from emend.evals.results.dry_run.stand_in import StandIn, make_stand_in, text_of_length
from emend.evals.streams.run.job import run_stream
from emend.evals.streams.run.line import read_answers
from emend.evals.streams.run.source import StreamPlace, read_stream_source
from emend.evals.streams.stream_config import StreamConfig
from emend.memory.probe import Usage

# Settings that limit or cache the calls of a run, which do not apply to a sample.
LIMITS = ("max_cost", "max_calls", "prices", "rpm", "tpm", "cache")


def estimate_stream(file: str, config: StreamConfig) -> DryRun:
    """Estimate a run over a stream by letting each system answer a sample with a stand-in model.

    The stand-in answers at `SAMPLE` places of the stream. The tokens of answers are scaled up with
    the number of questions; those of systems that read turns with the model, with the number of
    turns.

    Raises:
        EmendError: a name, setting or file is wrong.
    """
    check_spec(config.model)
    run_config = config.run_config(file)
    check_model_settings(config.model, run_config.model_spec.settings)
    places = read_stream_source(file, config).places
    sampled = _sample_config(config, min(SAMPLE, len(places)))
    sample = read_stream_source(file, sampled).places
    questions = _count_questions(places) / _count_questions(sample)
    turns = _count_turns(places) / _count_turns(sample)
    usual_answer = _usual_answer(places)
    rows = []
    for system in run_config.editors:
        model = make_stand_in(run_config.model_spec, usual_answer)
        answers = _ask(file, _of_system(sampled, system), model)
        used = {name: (getattr(answers, name), getattr(model.usage, name)) for name in COUNTS}
        counts = {
            name: round(config.repeats * (questions * by_answers + turns * (total - by_answers)))
            for name, (by_answers, total) in used.items()
        }
        units = config.repeats * len(places)
        rows.append(EstimatedRow(setting=TURNS, editor=system, units=units, **counts))
    about: dict[str, Any] = {"sample": f"{len(sample)} places, spread over the stream"}
    if missing := absence(config.model):
        about |= {"needs": (f"missing: {missing}",)}
    return priced(run_config, tuple(rows)).model_copy(update=about)


def _count_questions(places: Sequence[StreamPlace]) -> int:
    return sum(len(place.questions) for place in places)


def _count_turns(places: Sequence[StreamPlace]) -> int:
    return sum(len(place.turns) for place in places)


def _usual_answer(places: Sequence[StreamPlace]) -> str:
    """Return a text with the mean length of the right answers."""
    questions = [question for place in places for question in place.questions]
    golds = [UNKNOWN if question.abstains else question.gold[0] for question in questions]
    return text_of_length([len(gold) for gold in golds])


def _sample_config(config: StreamConfig, places: int) -> StreamConfig:
    free = dict.fromkeys(LIMITS)
    changed = {"places": places, "repeats": 1, "fail_on_error": "false", "workers": "threads"}
    return config.model_copy(update=free | changed)


def _of_system(config: StreamConfig, system: str) -> StreamConfig:
    overrides = {name: values for name, values in config.overrides.items() if name == system}
    return config.model_copy(update={"systems": (system,), "overrides": overrides})


def _ask(file: str, config: StreamConfig, model: StandIn) -> Usage:
    """Run a sample and return the usage of its answers; the model counts all of its calls."""
    usage = Usage()
    with tempfile.TemporaryDirectory(prefix="emend-dry-run-") as home:
        with without_warnings():  # a sample's warnings; the run will give its own
            run_stream(file, config, Path(home) / "run", model=model)
        for answer in read_answers(Path(home) / "run"):
            usage = usage.plus(answer.usage)
    return usage
