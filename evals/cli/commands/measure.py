"""The commands `emend extract`, `retrieval`, `train` and `tune`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, Plot, grouped
from emend.evals.cli.output import emit, interrupts_as_exit, print_text
from emend.evals.config.limits import Limits
from emend.evals.config.measure_config import (
    EncoderConfig,
    ExtractionConfig,
    RetrievalConfig,
    ScopeConfig,
    TuneConfig,
)
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from rich.console import Console

    from emend.evals.data.conversations.benchmark import ConversationBenchmark
    from emend.evals.measure.extraction import ExtractionRows


@grouped
def extract(
    config: ExtractionConfig,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="File of triplets, one JSON object per document and line."
        ),
    ],
    *,
    limits: Limits,
    as_json: Json = False,
) -> None:
    """Extract triplets from a benchmark's documents and measure them; repeat the command to
    continue.
    """
    from emend.evals.measure.extraction import run_extraction
    from emend.evals.show.report.measurements import PUBLISHED_QUALITY, render_extraction
    from emend.evals.show.report.progress import progress_on

    result = run_extraction(config, limits, out, progress_on())
    published = PUBLISHED_QUALITY.get((config.benchmark, result.language), ())
    row = {"benchmark": config.benchmark, "method": config.method, "embedding": result.embedding}
    table = render_extraction(config.method, result.quality, result.embedding, published)
    emit([row | result.quality.model_dump()], as_json, lambda console: console.print(table))
    if not as_json:
        _print_next(config, out, result.file)


def _print_next(config: ExtractionConfig, out: Path, file: "ExtractionRows") -> None:
    triplets = sum(len(row.triplets) for row in file.rows)
    before = ""
    if file.skipped:
        before = f"; {file.skipped} of these documents existed before"
    print_text(f"\n{triplets} triplets of {len(file.rows)} documents are in {out}{before}.")
    if empty := sum(not row.triplets for row in file.rows):
        print_text(f"{empty} documents have no triplets; their lines give the reason.")
    setting = {"docter": "llm" if config.method == "llm" else "tool"}.get(
        config.benchmark, "extract"
    )
    print_text(
        f"Edit with them: emend run --benchmark {config.benchmark} --setting {setting} "
        f"--benchmark-option triples={out} ..."
    )


@grouped
def retrieval(config: RetrievalConfig, plot: Plot = None, as_json: Json = False) -> None:
    """Measure retrievers on a benchmark's probes, without a language model: hit@1, hit@5, MRR and
    false hits.

    On conversations: evidence recall and nDCG by turn and session, and whether newer statements are
    ranked first.
    """
    from emend.evals.measure.conversations import load_conversations
    from emend.evals.measure.retrieval import measure_retrieval
    from emend.evals.show.report.measurements import render_retrieval

    if (conversations := load_conversations(config)) is not None:
        _measure_conversations(config, conversations, plot, as_json)
        return
    if config.corrections or config.budget:
        raise BadSettings(
            f"{config.benchmark} has no conversations: leave --corrections and --budget out."
        )
    if as_json and len(config.settings) > 1:
        raise BadSettings(
            "--json rows do not contain the setting: use a single --setting with --json."
        )
    reports = measure_retrieval(config)
    if plot is not None:
        from emend.evals.show.report.plots import plot_retrieval

        plot_retrieval(reports, plot)

    def show(console: "Console") -> None:
        for report in reports:
            console.print(render_retrieval(report, console))

    rows = [row.model_dump(by_alias=True) for report in reports for row in report.rows]
    thresholds = [row.model_dump(by_alias=True) for report in reports for row in report.thresholds]
    emit(rows, as_json, show, **({"thresholds": thresholds} if config.calibrate else {}))


def _measure_conversations(
    config: RetrievalConfig, benchmark: "ConversationBenchmark", plot: Path | None, as_json: bool
) -> None:
    from emend.evals.measure.conversations import measure_conversations
    from emend.evals.show.report.conversations import conversation_lines, render_conversations

    if plot is not None:
        raise BadSettings(
            "--plot draws hit@1, which conversations do not have: leave it out, or use --json."
        )
    report = measure_conversations(config, benchmark)
    pairs = [row.model_dump() for row in report.pairs]
    if report.corrections:
        corrections = [report.corrections.model_dump()]
    else:
        corrections = []
    indexes = [{"strategy": name, "ms": ms} for name, ms in report.build_ms.items()]
    emit(
        conversation_lines(report),
        as_json,
        lambda console: console.print(render_conversations(report)),
        pairs=pairs,
        corrections=corrections,
        indexes=indexes,
    )


train = typer.Typer(
    name="train", help="Train scope classifiers and sentence encoders.", no_args_is_help=True
)

Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="New folder for the trained weights.")
]


@train.command()
@grouped
def scope(config: ScopeConfig, out: Out, as_json: Json = False) -> None:
    """Train SERAC's scope classifier on a benchmark's questions in and out of scope, and choose its
    threshold.
    """
    from emend.editors.checkpoint.deltas import new_folder
    from emend.evals.measure.training import train_scope_on
    from emend.evals.show.report.measurements import show_scope

    with new_folder(out) as draft:
        rows = train_scope_on(config, draft, _print_steps)
    emit(rows, as_json, lambda console: show_scope(rows, out, console))


@train.command()
@grouped
def encoder(config: EncoderConfig, out: Out, as_json: Json = False) -> None:
    """Fine-tune a sentence encoder on a benchmark's questions and their relevant edits, as a LoRA
    adapter.
    """
    from emend.editors.checkpoint.deltas import new_folder
    from emend.evals.measure.training import train_encoder_on
    from emend.evals.show.report.measurements import show_encoder

    with new_folder(out) as draft:
        rows = train_encoder_on(config, draft, _print_steps)
    emit(rows, as_json, lambda console: show_encoder(rows, config.embedding, out, console))


def _print_steps(step: int, total: int) -> None:
    """Print a line to stderr at every tenth of the training steps."""
    if step == total or step % max(1, total // 10) == 0:
        sys.stderr.write(f"training: {step:,} of {total:,} steps\n")


@grouped
def tune(
    editor: Annotated[
        str,
        typer.Argument(
            metavar="EDITOR", help="Editor that changes weights; see: emend list editors."
        ),
    ],
    config: TuneConfig,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Settings file to write, for --set EDITOR=@FILE.")
    ],
    as_json: Json = False,
) -> None:
    """Tune an editor's settings for a model on facts that a run with the same --limit and --seed
    does not evaluate.

    Trials are stored in FILE.trials.jsonl; the same command continues from it.
    """
    from emend.evals.log.folder import locked
    from emend.evals.results.settings_search import Trial, settings_file, tune
    from emend.evals.show.report.measurements import show_tuning
    from emend.memory.files import write_export

    if not out.parent.is_dir():
        raise BadSettings(f"--out '{out}': there is no folder '{out.parent}'.")

    def notify(trial: Trial, number: int, of: int) -> None:
        reached = trial.problem or f"score {trial.score or 0:.1f}"
        place = f"{number} of {of}" if of else "test"
        print_text(
            f"{place}, {trial.facts} facts: {trial.settings or 'defaults'}: {reached}", err=True
        )

    journal = out.with_name(f"{out.name}.trials.jsonl")
    with (
        interrupts_as_exit("the same command continues after the last finished trial."),
        locked(journal.with_name(f"{journal.name}.lock"), f"writing '{journal}'"),
    ):
        tuned = tune(config, editor, journal, notify)
        # while the lock is held, so that no other search of this name writes in between
        write_export(out, settings_file(config, tuned), "Give another --out FILE.")
    emit([tuned], as_json, lambda console: show_tuning(tuned, out, console))
