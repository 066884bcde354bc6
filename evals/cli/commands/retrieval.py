"""The command `emend retrieval`."""

from typing import TYPE_CHECKING

from emend.evals.cli.options import Json, Plot, grouped
from emend.evals.cli.output import emit
from emend.evals.config.measure_config import RetrievalConfig
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from rich.console import Console


@grouped
def retrieval(config: RetrievalConfig, plot: Plot = None, as_json: Json = False) -> None:
    """Measure retrievers on a benchmark's probes, without a language model: hit@1, hit@5, MRR and false hits."""
    from emend.evals.measure.retrieval import measure_retrieval
    from emend.evals.show.report.tables.retrieval import render_retrieval

    if as_json and len(config.settings) > 1:
        raise BadSettings("--json rows do not name the setting: give one --setting at a time with --json.")
    reports = measure_retrieval(config)
    if plot is not None:
        from emend.evals.show.report.plots.analysis_plot import plot_retrieval

        plot_retrieval(reports, plot)

    def show(console: "Console") -> None:
        for report in reports:
            console.print(render_retrieval(report, console))

    rows = [row.model_dump(by_alias=True) for report in reports for row in report.rows]
    thresholds = [row.model_dump(by_alias=True) for report in reports for row in report.thresholds]
    emit(rows, as_json, show, **({"thresholds": thresholds} if config.calibrate else {}))
