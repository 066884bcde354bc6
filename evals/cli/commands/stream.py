"""The commands `emend stream new`, `emend stream run` and `emend stream check`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import DryRun, Json, Out, grouped, show_estimates
from emend.evals.cli.output import emit, print_text
from emend.evals.config.task_config import StreamConfig, StreamOptions
from emend.memory.errors import BadSettings

stream = typer.Typer(
    name="stream", help="Ask memory systems over a stream of turns; make and check streams.", no_args_is_help=True
)
PLANTED_A_QUESTION = 3
"""Number of wrong answers of a question that a judge is asked about."""
StreamFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="JSON lines with turns and questions, or a file of LongMemEval, MEME or MemoryAgentBench."
    ),
]


@stream.command()
@grouped
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    options: StreamOptions,
    injections: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of documents among the turns that try to change answers.")
    ] = 0,
) -> None:
    """Make a stream of facts, corrections, deletions, rules and chatter, with questions between them."""
    from emend.evals.stream.generator import generate_stream, with_injections
    from emend.evals.stream.turn import Turn, write_stream

    if file.exists():
        raise BadSettings(f"'{file}' exists: name a new file.")
    items = list(generate_stream(options))
    if injections:
        items = with_injections(items, injections, options.seed)
    write_stream(items, file)
    turns = sum(isinstance(item, Turn) for item in items)
    print_text(f"{turns:,} turns and {len(items) - turns:,} questions are in {file}. Next:")
    print_text(f"  emend stream check {file}")
    print_text(f"  emend stream run {file} --system full_context --system bm25_newest --model MODEL --out RUN")


@stream.command()
@grouped
def run(
    file: StreamFile,
    config: StreamConfig,
    out: Out = None,
    dry_run: DryRun = False,
) -> None:
    """Ask memory systems the questions of a stream, each after the turns before it, and print the table.

    An interrupted run is continued by the same command, or by emend resume.
    """
    from emend.evals.api.run import new_folder
    from emend.evals.cli.interrupts import run_and_report

    run_config = config.run_config(str(file))
    if dry_run:
        show_estimates([run_config])
        return
    folder = out or new_folder(run_config.benchmark)
    run_and_report(run_config, folder)
    print_text(f"\nThe run is in {folder}. Next:")
    print_text(f"  emend view {folder}")
    print_text(f"  emend compare {folder}")
    print_text(f"  emend analyse {folder} memory")


@stream.command()
def check(
    file: StreamFile,
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="Chat model to measure as a judge; default: the rules alone.")
    ] = "",
    questions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of questions that the judge is measured on.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """Check a stream: gold against the turns' texts, and who judges on right and planted wrong answers."""
    from emend.evals.show.report.measurements import render_checks
    from emend.evals.stream.fairness import check_judge, check_stream, judge_by_model
    from emend.evals.stream.loaders import load_stream
    from emend.evals.stream.turn import StreamQuestion

    items = load_stream(file)
    checks = check_stream(items)
    if judge:
        from emend.agents.llm import load_model

        asked_about = [item for item in items if isinstance(item, StreamQuestion)][:questions]
        checks += check_judge(judge_by_model(load_model(judge)), asked_about, PLANTED_A_QUESTION).rows
    emit([row.model_dump() for row in checks], as_json, lambda console: console.print(render_checks(checks)))
