"""The commands `emend train scope` and `emend train encoder`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, grouped
from emend.evals.cli.output import emit
from emend.evals.config.measure_config import EncoderConfig, ScopeConfig
from emend.memory.errors import BadSettings

train = typer.Typer(name="train", help="Train scope classifiers and sentence encoders.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="New folder for the trained weights.")]


@train.command()
@grouped
def scope(config: ScopeConfig, out: Out, as_json: Json = False) -> None:
    """Train SERAC's scope classifier and its threshold on a benchmark's questions in and out of scope."""
    from emend.evals.measure.train_scope import train_scope_on
    from emend.evals.show.report.training import show_scope

    _refuse_existing(out)
    rows = train_scope_on(config, out, _print_steps)
    emit(rows, as_json, lambda console: show_scope(rows, out, console))


@train.command()
@grouped
def encoder(config: EncoderConfig, out: Out, as_json: Json = False) -> None:
    """Fine-tune a sentence encoder on a benchmark's questions and their relevant edits, as a LoRA adapter."""
    from emend.evals.measure.train_encoder import train_encoder_on
    from emend.evals.show.report.training import show_encoder

    _refuse_existing(out)
    rows = train_encoder_on(config, out, _print_steps)
    emit(rows, as_json, lambda console: show_encoder(rows, config.embedding, out, console))


def _refuse_existing(out: Path) -> None:
    """Refuse a folder with content, because memories and runs may depend on it.

    Raises:
        BadSettings: the path is a file or such a folder.
    """
    if out.exists() and not out.is_dir():
        raise BadSettings(f"--out '{out}' is a file: name a new folder.")
    if out.is_dir() and any(out.iterdir()):
        raise BadSettings(f"--out '{out}' is not empty: name a new folder, or empty it.")


def _print_steps(step: int, total: int) -> None:
    """Write a line to stderr at every tenth of the training steps."""
    if step == total or step % max(1, total // 10) == 0:
        sys.stderr.write(f"training: {step:,} of {total:,} steps\n")
