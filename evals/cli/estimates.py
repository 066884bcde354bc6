"""The option `--dry-run`, and the lines that it prints."""

from collections.abc import Sequence
from typing import Annotated

import typer

from emend.evals.cli.output import print_text
from emend.evals.config.run_config import RunConfig

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print units, calls, tokens, cost and time, and ask no model.")]


def show_estimates(configs: Sequence[RunConfig]) -> None:
    """Print what runs are expected to need."""
    from emend.evals.results.estimates.dry_run import dry_run
    from emend.evals.show.report.dry_run import estimate_lines
    from emend.evals.stream.benchmark import Stream, dry_run_stream

    for config in configs:
        estimate = dry_run_stream(config) if config.benchmark == Stream.name else dry_run(config)
        for line in estimate_lines(estimate):
            print_text(line)
