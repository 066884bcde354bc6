"""Options --require and --junit of the commands that print a report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from emend.evals.cli.output import print_text
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.results.aggregate.rows import Report


def check_thresholds(require: Sequence[str] | None, junit: Path | None) -> None:
    """Check the options before anything is evaluated.

    Raises:
        BadSettings: a threshold has another form, or --junit stands alone.
    """
    from emend.evals.results.aggregate.gate import Requirement

    if junit is not None and not require:
        raise BadSettings("--junit writes the outcomes of --require: give at least one.")
    for text in require or ():
        Requirement.parse(text)


def enforce_thresholds(report: "Report", require: Sequence[str] | None, junit: Path | None) -> None:
    """Print the outcome of each threshold on standard error, and write them as JUnit XML.

    Raises:
        typer.Exit: with code 1 if one is not met.
        BadSettings: a threshold is about no row of the report, or the file cannot be written.
    """
    from emend.evals.results.aggregate.gate import check_requirements, junit_cases, write_junit

    outcomes = check_requirements(report, require or ())
    for outcome in outcomes:
        print_text(f"{'met' if outcome.met else 'NOT MET'}: {outcome.message}", err=True)
    if junit is not None:
        write_junit(junit_cases(outcomes), f"emend {report.benchmark} {report.model}", junit)
    if not all(outcome.met for outcome in outcomes):
        raise typer.Exit(1)
