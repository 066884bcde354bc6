"""The command line: reads arguments, calls the library, prints; nothing heavy is imported before a command runs."""

import logging
import os
import signal
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.analyse import analyse
from emend.evals.cli.ask import ask
from emend.evals.cli.compare import compare
from emend.evals.cli.data import data
from emend.evals.cli.edit import edit
from emend.evals.cli.extract import extract
from emend.evals.cli.graph import graph
from emend.evals.cli.judge import judge
from emend.evals.cli.limits import Limits
from emend.evals.cli.memory import memory
from emend.evals.cli.options import Checkpoints, HeldOut, Json, Set, grouped, overrides_of, pair, print_rows
from emend.evals.cli.papers import Against, papers, print_against
from emend.evals.cli.references import References, print_consistency
from emend.evals.cli.retrieval import retrieval
from emend.evals.cli.score import score
from emend.evals.cli.stats import stats
from emend.evals.cli.trace import trace
from emend.evals.cli.train import train
from emend.memory.errors import BadSettings, EmendError
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from emend.evals.log.config import RunConfig

app = typer.Typer(
    name="emend",
    help="Edit what a language model knows, and measure what came of it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Editors = Annotated[list[str] | None, typer.Option("--editor", help="An editor by name; may be given several times.")]
Out = Annotated[Path | None, typer.Option("--out", help="The run folder; default runs/BENCHMARK-DATE-TIME.")]
Concurrency = Annotated[int, typer.Option(help="Units that are asked at the same time.")]
FailOnError = Annotated[
    str, typer.Option("--fail-on-error", help="Failed units to stop at: true, false, a share (0.1) or a count (5).")
]


def main() -> None:
    """Entry point: an error of ours is one line on stderr and exit code 2."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else threads that wait take the cores from those that work
    logging.getLogger("bitsandbytes").setLevel("ERROR")  # others import it, and it warns of kernels for 4 bits
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # so that module:attribute finds what lies where one works; installed ones first
    kept = signal.signal(signal.SIGTERM, _ended)  # what a scheduler sends first
    try:
        app()
    except EmendError as error:
        from emend.evals.report.escape import one_line

        sys.stderr.write(f"error: {one_line(hide_keys(' '.join(str(error).split())))}\n")
        sys.exit(2)
    finally:
        signal.signal(signal.SIGTERM, kept)


def _ended(*_: object) -> None:
    raise KeyboardInterrupt


@app.command()
def demo(
    edits: Annotated[int, typer.Option(help="How many edits of the invented world.")] = 40,
    out: Out = None,
    editor: Editors = None,
    concurrency: Concurrency = 4,
) -> None:
    """Edit the embedded model in five ways and show what came of it; no key, GPU or download."""
    from emend.evals.cli.demo import after, demo_config

    config = demo_config(edits, editor, concurrency)
    folder = _run(config, out or _fresh("demo"))
    after(folder)


@app.command()
@grouped
def run(
    benchmark: Annotated[str, typer.Option(help="See: emend list benchmarks.")],
    editor: Annotated[list[str], typer.Option("--editor", help="An editor; may be given several times.")],
    data: Annotated[str | None, typer.Option(help="The data folder; looked for under EMEND_DATA first.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--setting", help="What the editor is given.")] = None,
    model: Annotated[str, typer.Option(help="tiny, hf:FOLDER, openai:NAME[@URL], anthropic:NAME.")] = "tiny",
    mode: Annotated[
        str | None, typer.Option(help="Edits that stand at once: single, all, batch:N, sequential; default as usual.")
    ] = None,
    checkpoints: Checkpoints = None,
    held_out: HeldOut = None,
    limit: Annotated[int | None, typer.Option(help="So many cases.")] = None,
    retriever: Annotated[str, typer.Option(help="See: emend list retrievers.")] = "default",
    embedding: Annotated[
        str, typer.Option(help="auto, lexical, a sentence-transformers model, or module:attribute.")
    ] = "auto",
    out: Out = None,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 0,
    concurrency: Concurrency = 4,
    repeat: Annotated[int, typer.Option(help="Ask everything so many times.")] = 1,
    wording: Annotated[str | None, typer.Option(help="How facts are put before a prompt.")] = None,
    fail_on_error: FailOnError = "0.1",
    settings: Set = None,
    option: Annotated[list[str] | None, typer.Option("--option", help="key=value for the benchmark.")] = None,
    *,
    limits: Limits,
) -> None:
    """Run editors over a benchmark; the same command again finishes what is missing."""
    from emend.evals.log.config import RunConfig

    asked: dict[str, Any] = dict(benchmark=benchmark, data=data, model=model, mode=mode, limit=limit, seed=seed)
    asked |= dict(retriever=retriever, embedding=embedding, prompt_template=wording, repeats=repeat)
    asked |= asdict(limits) | {"perplexity_text": held_out, "reevaluate_at": checkpoints}
    config = RunConfig(
        editors=tuple(dict.fromkeys(editor)),
        settings=tuple(setting or ()),
        benchmark_options=dict(pair(text, "--option") for text in option or ()),
        overrides=overrides_of(settings or []),
        concurrency=concurrency,
        fail_on_error=fail_on_error,
        **asked,
    )
    _say_next(_run(config, out or _fresh(benchmark)))


@app.command()
@grouped
def resume(
    folder: RunFolder,
    concurrency: Annotated[int | None, typer.Option(help="Units asked at the same time; default as before.")] = None,
    data: Annotated[str | None, typer.Option(help="Where the data is now; default as before.")] = None,
    fail_on_error: Annotated[str | None, typer.Option("--fail-on-error", help="Default as before.")] = None,
    *,
    limits: Limits,
) -> None:
    """Finish a run that was interrupted, and try its failed units again; what is not told stays as it was."""
    from emend.evals.log.manifest import Manifest

    changed: dict[str, Any] = {"concurrency": concurrency, "data": data, "fail_on_error": fail_on_error}
    changed |= asdict(limits)
    given = {name: value for name, value in changed.items() if value is not None}
    config = Manifest.read(folder).config
    _say_next(_run(type(config).model_validate(config.model_dump() | given), folder))


@app.command()
def report(
    folder: RunFolder,
    as_json: Json = False,
    svg: Annotated[Path | None, typer.Option(help="Also draw the table into this file.")] = None,
    against: Against = None,
    scoring: Annotated[str | None, typer.Option(help="Whose judgements: an id, or none; default the newest.")] = None,
    references: References = None,
) -> None:
    """Show the table of a run, or its numbers beside published ones."""
    from emend.evals.aggregate.rows import report as report_of
    from emend.evals.report.table import console_for, show

    if references is not None:
        if svg is not None or against is not None or scoring is not None:
            raise BadSettings("--references prints RS alone: leave out --svg, --against and --scoring.")
        print_consistency(folder, references, as_json)
        return
    found = report_of(folder, scoring)
    if svg is not None:
        from emend.evals.report.plots.svg import write_svg

        write_svg(found, svg)
    if against is not None:
        print_against(folder, against, as_json, scoring)
    elif as_json:
        print_rows([row.model_dump() for row in (*found.rows, *found.forgetting, *found.perplexity, *found.costs)])
    else:
        show(found, console_for())


@app.command("list")
def list_parts(
    kind: Annotated[str, typer.Argument(help="editors, benchmarks, retrievers, judges, models or graphs.")],
    as_json: Json = False,
) -> None:
    """List what can be named on the command line, plug-ins included."""
    from emend.evals.cli.listing import KINDS, rows, show_rows

    if kind not in KINDS:
        raise BadSettings(f"cannot list '{kind}': {nearest(kind, list(KINDS))}")
    found = rows(kind)
    print_rows(found) if as_json else show_rows(kind, found)


app.command()(trace)
app.command()(retrieval)
app.command()(extract)
app.command()(stats)
app.command()(edit)
app.add_typer(data)
app.add_typer(memory)
app.command()(papers)
app.command()(score)
app.add_typer(judge)
app.command()(compare)
app.command()(analyse)
app.command()(ask)
app.command()(graph)
app.add_typer(train)


@app.command()
def doctor(
    model: Annotated[str | None, typer.Option(help="Check this model, and print the card of the embedded one.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is installed, which keys, devices and data are seen, and whether the model answers."""
    from emend.evals.cli.doctor import examine, show_findings

    findings = examine(model)
    print_rows([row.model_dump() for row in findings]) if as_json else show_findings(findings)
    if any(row.status == "broken" for row in findings):
        raise typer.Exit(1)


def _run(config: "RunConfig", folder: Path) -> Path:
    """Run, show the table, return the folder."""
    from emend.evals.aggregate.rows import report as report_of
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.report.table import console_for, show
    from emend.evals.runner.progress import progress_on
    from emend.evals.runner.run import run as run_it
    from emend.evals.runner.summary import spent_lines

    with interruptible(folder):
        summary = run_it(config, folder, progress_on())
    show(report_of(folder), console_for())
    for line in spent_lines(folder, summary.spent):
        typer.echo(line)
    if summary.skipped and not summary.finished and not summary.failed:
        typer.echo("Nothing was left to do: every unit is from before.")
    return folder


def _say_next(folder: Path) -> None:
    typer.echo(f"\nThe run is in {folder}. Next:")
    typer.echo(f"  emend trace {folder} 1")
    typer.echo(f"  emend report {folder} --json")


def _fresh(name: str) -> Path:
    """A folder that is not there yet."""
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
    stem = f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, count = Path("runs") / stem, 2
    while folder.exists():
        folder, count = Path("runs") / f"{stem}-{count}", count + 1
    return folder


if __name__ == "__main__":
    main()
