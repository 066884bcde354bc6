"""The commands `emend stream new`, `emend stream run` and `emend stream check`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import DryRun, Json, Out, grouped
from emend.evals.cli.output import emit, print_text
from emend.evals.streams.stream_config import StreamConfig, StreamOptions
from emend.memory.errors import BadSettings

stream = typer.Typer(
    name="stream",
    help="Evaluate memory systems on a stream of turns; generate and check streams.",
    no_args_is_help=True,
)
# Maximum number of wrong answers per question that a judge is asked about.
PLANTED_A_QUESTION = 3
StreamFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="JSON lines with turns and questions, or a file of LongMemEval, MEME "
        "or MemoryAgentBench.",
    ),
]


@stream.command()
@grouped
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    options: StreamOptions,
    injections: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Number of injected documents that try to manipulate answers.",
        ),
    ] = 0,
) -> None:
    """Generate a stream of facts, corrections, deletions, rules and chatter, with interspersed
    questions.
    """
    from emend.evals.streams.generator import generate_stream, with_injections
    from emend.evals.streams.turn import Turn, write_stream

    if file.exists():
        raise BadSettings(f"'{file}' exists: name a new file.")
    items = list(generate_stream(options))
    if injections:
        items = with_injections(items, injections, options.seed)
    write_stream(items, file)
    turns = sum(isinstance(item, Turn) for item in items)
    print_text(f"{turns:,} turns and {len(items) - turns:,} questions are in {file}. Next:")
    print_text(f"  emend stream check {file}")
    print_text(
        f"  emend stream run {file} --system full_context --system bm25_newest --model "
        "MODEL --out RUN"
    )


@stream.command()
@grouped
def run(
    file: StreamFile,
    config: StreamConfig,
    out: Out = None,
    dry_run: DryRun = False,
) -> None:
    """Evaluate memory systems on the questions of a stream, each asked after the preceding turns,
    and print the table.

    An interrupted run is continued by the same command, or by emend resume.
    """
    from emend.evals.api.result import RunResult
    from emend.evals.api.run import new_folder
    from emend.evals.cli.interrupts import interruptible, print_result
    from emend.evals.log.manifest import changed_fields
    from emend.evals.show.report.progress import progress_on
    from emend.evals.streams.run.job import run_stream
    from emend.evals.streams.run.line import JOB

    if dry_run:
        _show_estimate(file, config)
        return
    folder = out or new_folder(JOB)
    if changed := changed_fields(config.run_config(str(file)), folder):
        print_text(f"values of this command are used: {changed}", err=True)
    with interruptible(folder):
        summary = run_stream(file, config, folder, progress_on())
    print_result(RunResult(folder, summary))
    print_text(f"\nThe run is in {folder}. Next:")
    print_text(f"  emend view {folder}")
    print_text(f"  emend compare {folder}")
    print_text(f"  emend analyse {folder} memory")


def _show_estimate(file: Path, config: StreamConfig) -> None:
    from emend.evals.show.report.estimates import dry_run_lines
    from emend.evals.streams.estimate import estimate_stream

    for line in dry_run_lines(estimate_stream(str(file), config)):
        print_text(line)


@stream.command()
def check(
    file: StreamFile,
    judge: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="Chat model to measure as a judge; default: only the rules."
        ),
    ] = "",
    questions: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of questions for measuring the judge."),
    ] = 50,
    as_json: Json = False,
) -> None:
    """Check a stream: gold answers against the turns' texts, and judges on correct answers and
    planted wrong ones.
    """
    from emend.evals.streams.fairness import check_judge, check_stream, judge_by_model
    from emend.evals.streams.loaders import load_stream
    from emend.evals.streams.show.checks import render_checks
    from emend.evals.streams.turn import StreamQuestion

    items = load_stream(file)
    checks = check_stream(items)
    if judge:
        from emend.agents.llm import load_model

        asked_about = [item for item in items if isinstance(item, StreamQuestion)][:questions]
        checks += check_judge(
            judge_by_model(load_model(judge)), asked_about, PLANTED_A_QUESTION
        ).rows
    emit(
        [row.model_dump() for row in checks],
        as_json,
        lambda console: console.print(render_checks(checks)),
    )
