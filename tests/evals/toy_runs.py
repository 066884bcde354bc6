"""Runs of the toy benchmark, and what they leave in their folders."""

from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.jobs.results import Summary
from emend.evals.log.lines import EVENTS
from emend.evals.log.records import read_lines, read_records
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel, untimed

RUN = ("run", "--benchmark", BENCHMARK, "--editor", EDITOR, "--model", "scripted")
"""The words that run it on the command line."""
TRUST = ("--trust", BENCHMARK, "--trust", EDITOR)
"""The words with which such a run may be resumed."""


def config(**changed: Any) -> RunConfig:
    """One editor on the toy benchmark, with what is changed."""
    return RunConfig.model_validate({"benchmark": BENCHMARK, "editors": (EDITOR,), "model": "scripted"} | changed)


def go(folder: Path, model: Any = None, **changed: Any) -> Summary:
    """Runs that in a folder, or goes on there."""
    return run(config(**changed), folder, model=model or ScriptedModel())


def records(folder: Path) -> list[Record]:
    """All of them, in the order of the file."""
    return list(read_records(folder))


def untimed_records(folder: Path) -> list[str]:
    """The records, sorted, without the time they took."""
    return sorted(untimed(record) for record in read_records(folder))


def steps_of(folder: Path) -> list[tuple[str, ...]]:
    """Unit, probe, node and update of every step, sorted."""
    lines = (line for line in read_lines(folder, EVENTS) if "unit" in line)
    return sorted((line["unit"], line["probe"], line["node"], str(line["update"])) for line in lines)
