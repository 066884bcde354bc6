"""The command `emend doctor`."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.cli.options import Json
from emend.evals.cli.output import emit
from emend.memory.escape import one_line

if TYPE_CHECKING:
    from emend.evals.cli.installation import CheckResult

STYLES = {"ok": "green", "absent": "yellow", "broken": "bold red"}


def doctor(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Ask this model a question; tiny also prints its measurements; default: tiny."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check what is installed, which keys, devices and data are found, and whether a model answers.

    Exit code 1 if something is broken.
    """
    from emend.evals.cli.installation import examine

    findings = examine(model)
    emit(findings, as_json, lambda console: _show_findings(findings, console))
    if any(row.status == "broken" for row in findings):
        raise typer.Exit(1)


def _show_findings(findings: "list[CheckResult]", console: Console) -> None:
    """Print the findings by section; measurements of a card as a table of numbers."""
    for section in dict.fromkeys(finding.section for finding in findings):
        console.print(Text(section, style="bold"))
        table = Table.grid(padding=(0, 2))
        for finding in (f for f in findings if f.section == section):
            table.add_row(Text("  " + one_line(finding.check)), *_cells(finding))
        console.print(table)


def _cells(finding: "CheckResult") -> tuple[Text, ...]:
    if finding.mean is None:
        status = Text(finding.status, style=STYLES[finding.status])
        return status, Text(one_line(finding.detail), overflow="fold")
    low, high = finding.low, finding.high
    interval = "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
    return Text(f"{finding.mean:.3f}"), Text(interval, style="dim"), Text(f"n={finding.n}", style="dim")
