"""The command `emend gate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, RunFolder
from emend.evals.cli.output import emit, print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from emend.evals.results.aggregate.gate import GateVerdict


def gate(
    folder: RunFolder,
    min_efficacy: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Least share of edits that hold; default: no limit.")
    ] = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS", help="Most of it that earlier edits may lose under later ones; default: no limit."
        ),
    ] = None,
    max_ability_drop: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="Most that each task of --ability may lose; default: no limit."),
    ] = None,
    max_perplexity: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="Most that the perplexity of other texts may grow by; default: no limit."),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="Metric of efficacy; default: efficacy, or else the run's first one.")
    ] = "",
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the checks into this file as JUnit XML; default: none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check whether a run's edited model may be shipped; exit code 1 where it may not.

    After a run in mode sequential it names the last number of edits up to which all limits are kept.
    """
    from emend.evals.results.aggregate.gate import GateLimits, check_gate, write_gate_junit
    from emend.evals.results.aggregate.rows import report as read_report

    limits = GateLimits(
        min_efficacy=min_efficacy,
        max_forgetting=max_forgetting,
        max_ability_drop=max_ability_drop,
        max_perplexity=max_perplexity,
        metric=metric,
    )
    report = read_report(folder)
    verdicts = check_gate(report, limits)
    rows = [verdict.model_dump() | {"passes": verdict.passes, "safe_edits": verdict.safe_edits} for verdict in verdicts]
    emit(rows, as_json, lambda console: _show(verdicts, console))
    if junit is not None:
        write_gate_junit(verdicts, report, junit)
    if not all(verdict.passes for verdict in verdicts):
        raise typer.Exit(1)


def _show(verdicts: "Sequence[GateVerdict]", console: "Console") -> None:
    for verdict in verdicts:
        print_text(f"{verdict.editor}, {verdict.setting}, mode {verdict.mode}")
        for check in verdict.checks:
            edits = f"after {check.edits} edits, " if check.edits else ""
            print_text(f"  {'met' if check.met else 'NOT MET'}: {edits}{check.message}")
        safe = "none" if verdict.safe_edits is None else str(verdict.safe_edits)
        sequence = f"; last safe number of edits: {safe}" if verdict.checks[-1].edits else ""
        print_text(f"  {'passes' if verdict.passes else 'does NOT pass'}{sequence}")
