"""A run of the command line: carried out, its table printed, and what it cost."""

from pathlib import Path
from typing import TYPE_CHECKING

from emend.evals.cli.output import print_text
from emend.evals.config.run_config import RunConfig

if TYPE_CHECKING:
    from emend.evals.api.result import RunResult


def run_and_report(config: RunConfig, folder: Path, mirror: str | None = None) -> "RunResult":
    """Run, and print the table and the API costs."""
    from emend.evals.api.run import run_config
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.log.manifest import changed_fields
    from emend.evals.run.results import spent_lines
    from emend.evals.show.report.console import console_for
    from emend.evals.show.report.tables.metrics import render

    if changed := changed_fields(config, folder):
        print_text(f"this call's values hold: {changed}", err=True)
    with interruptible(folder):
        result = run_config(config, folder, mirror=mirror)
    summary = result.summary
    assert summary is not None
    console = console_for()
    console.print(render(result.report, console))
    for line in spent_lines(folder, summary.spent):
        print_text(line)
    if summary.skipped and not summary.finished and not summary.failed:
        print_text("Nothing was left to do: every unit was finished before.")
    return result
