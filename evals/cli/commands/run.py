"""The commands `emend run`, `resume` and `demo`."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.cli.options import OptionalFields, RunFolder, grouped
from emend.evals.log.config import RunConfig
from emend.evals.log.manifest import FREE, Manifest
from emend.evals.report.escape import one_line
from emend.evals.report.tables.metrics import console_for, legend, show

Out = Annotated[
    Path | None, typer.Option("--out", metavar="FOLDER", help="Run folder; default: runs/BENCHMARK-DATE-TIME.")
]
DEMO_EDITORS = ("unedited", "in_context", "rag", "ike", "ft")


@grouped
def run(config: RunConfig, out: Out = None) -> None:
    """Evaluate editors on a benchmark and print the table of metrics.

    An interrupted run is continued by the same command with the same --out, or by emend resume.
    """
    _print_next(run_and_report(config, out or _new_folder(config.benchmark)))


@grouped
def resume(folder: RunFolder, changes: Annotated[dict[str, Any], OptionalFields(RunConfig, FREE)]) -> None:
    """Continue an interrupted run and retry its failed units.

    Options that are left out keep the values that the run was started with.
    """
    config = Manifest.read(folder).config
    _print_next(run_and_report(RunConfig.model_validate(config.model_dump() | changes), folder))


def demo(
    edits: Annotated[int, typer.Option(metavar="N", help="Number of edits of the invented world.")] = 40,
    out: Out = None,
    editor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Editor to evaluate; repeatable; default: {', '.join(DEMO_EDITORS)}."),
    ] = None,
    concurrency: Annotated[int, typer.Option(metavar="N", help="Number of units evaluated at the same time.")] = 4,
) -> None:
    """Evaluate five editors on the embedded model and explain the table; no key, GPU or download."""
    config = RunConfig(
        benchmark="tinyworld",
        editors=tuple(dict.fromkeys(editor or DEMO_EDITORS)),
        limit=edits,
        concurrency=concurrency,
    )
    folder = run_and_report(config, out or _new_folder("demo"))
    _explain(Manifest.read(folder), folder, console_for())


def run_and_report(config: RunConfig, folder: Path) -> Path:
    """Run, print the table and the API costs, and return the folder."""
    from emend.evals.aggregate.rows import report
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.report.progress import progress_on
    from emend.evals.runner.run import run as run_config
    from emend.evals.runner.summary import spent_lines

    with interruptible(folder):
        summary = run_config(config, folder, progress_on())
    show(report(folder), console_for())
    for line in spent_lines(folder, summary.spent):
        typer.echo(line)
    if summary.skipped and not summary.finished and not summary.failed:
        typer.echo("Nothing was left to do: every unit was finished before.")
    return folder


def _print_next(folder: Path) -> None:
    typer.echo(f"\nThe run is in {folder}. Next:")
    typer.echo(f"  emend trace {folder} 1")
    typer.echo(f"  emend report {folder} --json")


def _new_folder(name: str) -> Path:
    """Path of a run folder that does not exist yet."""
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
    stem = f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, count = Path("runs") / stem, 2
    while folder.exists():
        folder, count = Path("runs") / f"{stem}-{count}", count + 1
    return folder


def _explain(manifest: Manifest, folder: Path, console: Console) -> None:
    """Print what the editors and metrics are, and a command that shows one case."""
    from emend.editors.registry import EDITORS

    summaries = {row["name"]: row["summary"] for row in EDITORS.rows()}
    editors = [(name, summaries.get(name, "")) for name in manifest.config.editors]
    for heading, lines in (("Editors", editors), ("Metrics", legend(manifest.metrics))):
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for name, summary in lines:
            table.add_row(Text("  " + one_line(name)), Text(one_line(summary)))
        console.print(Text("\n" + heading, style="bold"), table)
    console.print(Text("\nOne case, node by node", style="bold"))
    fingerprints = next(iter(manifest.editors.values()))
    with_graph = [name for name, fingerprint in fingerprints.items() if "graph" in fingerprint]
    example = (with_graph or list(fingerprints))[-1]
    console.print(Text(f"  emend trace {folder} 1 --editor {example} --kind efficacy"), soft_wrap=True)
