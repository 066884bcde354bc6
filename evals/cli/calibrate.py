"""The command `emend judge calibrate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.judging_options import Judges, asking
from emend.evals.cli.limits import Limits
from emend.evals.cli.options import Json, grouped, print_rows
from emend.memory.errors import ModelError

if TYPE_CHECKING:
    from emend.evals.judges.calibration import Calibration


@grouped
def calibrate(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="A file of labelled items, a JSON object a line.")],
    judges: Judges,
    *,
    limits: Limits,
    plot: Annotated[Path | None, typer.Option(help="Draw the labels into this .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how far a judge agrees with people's labels, and keep it for reports."""
    from emend.evals.judges.calibration import calibrate as calibrate_on
    from emend.evals.judges.calibration import panel_verdicts, read_labels, store_calibration, stored_calibration

    if plot is not None:
        from emend.evals.report.plots.plotting import require_plotting

        require_plotting(plot)
    panel, rows = judges.panel(), read_labels(labels)
    with asking(limits) as policy:
        models = panel.models(policy, judges.settings)
        found = calibrate_on(rows, panel.judges, panel_verdicts(panel, models, judges.concurrency))
    good = [one for one in found if one.n]
    if good:
        before = [stored_calibration(panel.judges, one.kind) for one in good]
        _tell(good, [store_calibration(one, panel.judges) for one in good], before, plot, as_json)
    if silent := [one.kind for one in found if not one.n]:
        raise ModelError(
            f"{', '.join(panel.judges)} gave no verdict on any label of {', '.join(silent)}, so nothing of it is "
            "kept: see that the judge answers (emend doctor --model ...), and that the labels are not null."
        )


def _tell(
    found: "Sequence[Calibration]",
    files: Sequence[Path],
    before: "Sequence[Calibration | None]",
    plot: Path | None,
    as_json: bool,
) -> None:
    if plot is not None:
        from emend.evals.report.calibration import plot_calibrations

        plot_calibrations(found, plot)
    if as_json:
        print_rows([one.model_dump() for one in found])
        return
    from emend.evals.report.calibration import render_calibration
    from emend.evals.report.table import console_for

    for one, file, old in zip(found, files, before, strict=True):
        console_for().print(render_calibration(one))
        other = f" In place of one over {old.labelled} labels." if old and old != one else ""
        typer.echo(f"Kept in {file}; reports with this judge show it.{other}\n")
