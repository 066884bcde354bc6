"""The command `emend judge calibrate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli_limits import Cache, MaxCalls, MaxCost, PricesFile, Rpm, Tpm
from emend.evals.cli_options import Json, print_rows
from emend.evals.cli_score import Judges, JudgeSet, Retries, judge_settings, policy_of

if TYPE_CHECKING:
    from emend.evals.calibration import Calibration


def calibrate(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="A file of labelled items, a JSON object a line.")],
    judge: Judges,
    repeats: Annotated[int, typer.Option(help="Ask each judge so many times, to see how steady it is.")] = 1,
    retries: Retries = 1,
    concurrency: Annotated[int, typer.Option(help="Calls at the same time.")] = 4,
    settings: JudgeSet = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    prices: PricesFile = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    cache: Cache = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the labels into this .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how far a judge agrees with people's labels, and keep it for reports."""
    from emend.evals.asking_judges import Asking, judge_kinds
    from emend.evals.calibration import calibrate as calibrate_on
    from emend.evals.calibration import keep, read_labels
    from emend.evals.judging import Panel

    if plot is not None:
        from emend.evals.report.plotting import require_plotting

        require_plotting(plot)
    panel = Panel(judges=tuple(dict.fromkeys(judge)), repeats=repeats, retries=retries)
    kinds = judge_kinds()
    rows = read_labels(labels, kinds)
    policy = policy_of(max_cost=max_cost, max_calls=max_calls, prices=prices, rpm=rpm, tpm=tpm, cache=cache)
    try:
        asking = Asking.of(panel, policy, judge_settings(settings), concurrency)
        found = calibrate_on(rows, panel.judges, kinds, asking)
    finally:
        policy.close()
    files = [keep(one, panel.judges) for one in found]
    _tell(found, files, plot, as_json)


def _tell(found: "Sequence[Calibration]", files: Sequence[Path], plot: Path | None, as_json: bool) -> None:
    if plot is not None:
        from emend.evals.report.calibration import plot_calibrations

        plot_calibrations(found, plot)
    if as_json:
        print_rows([_row(one.model_dump()) for one in found])
        return
    from emend.evals.report.calibration import render_calibration
    from emend.evals.report.table import console_for

    for one, file in zip(found, files, strict=True):
        console_for().print(render_calibration(one))
        typer.echo(f"Kept in {file}; reports with this judge show it.\n")


def _row(told: Mapping[str, Any]) -> dict[str, Any]:
    """The calibration as a row of JSON."""
    return dict(told)
