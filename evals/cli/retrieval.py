"""The command `emend retrieval`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, pair, print_rows
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.components.retrieval_rows import RetrievalReport


def retrieval(
    benchmark: Annotated[str, typer.Option(help="See: emend list benchmarks.")],
    data: Annotated[str | None, typer.Option(help="The data folder; looked for under EMEND_DATA first.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="What is stored; default the benchmark's first setting; may be given several times."),
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="See: emend list retrievers; may be given several times.")
    ] = None,
    embedding: Annotated[
        str, typer.Option(help="auto, lexical, a sentence-transformers model, or module:attribute.")
    ] = "auto",
    limit: Annotated[int | None, typer.Option(help="So many cases.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample that --limit takes.")] = 0,
    option: Annotated[list[str] | None, typer.Option("--option", help="key=value for the benchmark.")] = None,
    calibrate: Annotated[
        str | None, typer.Option(help="A kind of probe on whose right hits a threshold is found for each strategy.")
    ] = None,
    keep: Annotated[
        float | None, typer.Option(help="With --calibrate: share of those hits that the threshold keeps; default 0.95.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw hit@1 into this .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Measure retrieval strategies on a benchmark's probes, without a language model."""
    from emend.evals.components.retrieval import DEFAULT, KEEP, measure_retrieval

    if keep is not None and calibrate is None:
        raise BadSettings(f"--keep {keep:g} belongs to --calibrate: name a kind of probe with it, or leave it out.")
    if as_json and len(setting or ()) > 1:
        raise BadSettings("--json rows do not name the setting: give one --setting at a time with --json.")
    if plot is not None:
        from emend.evals.report.plots.plotting import require_plotting

        require_plotting(plot)
    found = [
        measure_retrieval(
            benchmark,
            strategy or [DEFAULT],
            data=data,
            setting=chosen,
            embedding=embedding,
            limit=limit,
            seed=seed,
            options=dict(pair(text, "--option") for text in option or ()),
            calibrate_on=calibrate,
            keep=KEEP if keep is None else keep,
        )
        for chosen in (setting or (None,))
    ]
    _tell(found, plot, as_json, calibrate is not None)


def _tell(found: "list[RetrievalReport]", plot: Path | None, as_json: bool, calibrated: bool) -> None:
    if plot is not None:
        from emend.evals.report.plots.retrieval_plot import plot_retrieval

        plot_retrieval(found, plot)
    if as_json:
        least = [row.model_dump(by_alias=True) for report in found for row in report.thresholds]
        more = {"thresholds": least} if calibrated else {}
        print_rows([row.model_dump(by_alias=True) for report in found for row in report.rows], **more)
        return
    from emend.evals.report.retrieval import show_retrieval
    from emend.evals.report.table import console_for

    for report in found:
        show_retrieval(report, console_for())
