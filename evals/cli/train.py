"""The commands `emend train scope` and `emend train encoder`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, pair, print_rows
from emend.memory.errors import BadSettings

Benchmark = Annotated[str, typer.Option(help="Whose questions and edits are learned from; see: emend list benchmarks.")]
Data = Annotated[str | None, typer.Option(help="The data folder; looked for under EMEND_DATA first.")]
Setting = Annotated[str | None, typer.Option(help="Default the benchmark's first setting.")]
Option = Annotated[list[str] | None, typer.Option("--option", help="key=value for the benchmark.")]
Check = Annotated[
    list[str] | None, typer.Option("--check", help="key=value: also try the questions under these options.")
]
Limit = Annotated[int | None, typer.Option(help="So many cases.")]
Seed = Annotated[int, typer.Option(min=0, help="Of every draw.")]

train = typer.Typer(name="train", help="Train what editors decide with.", no_args_is_help=True)


@train.callback()
def _group() -> None:
    """Train what editors decide with."""


def _refuse_used(out: Path) -> None:
    """Before the training: memories and runs may go by what lies there."""
    if out.exists() and not out.is_dir():
        raise BadSettings(f"--out '{out}' is a file: name a new folder.")
    if out.is_dir() and any(out.iterdir()):
        raise BadSettings(f"--out '{out}' is not empty: name a new folder, or empty it.")


@train.command()
def scope(
    benchmark: Benchmark,
    out: Annotated[Path, typer.Option("--out", help="The folder that the classifier is written into.")],
    data: Data = None,
    setting: Setting = None,
    option: Option = None,
    check: Check = None,
    form: Annotated[str, typer.Option(help="embedding (seconds to minutes), or cross-encoder.")] = "embedding",
    group: Annotated[
        str, typer.Option(help="A tag of the cases: those with one value are held out together for the threshold.")
    ] = "",
    embedding: Annotated[
        str, typer.Option(help="The encoder: auto, lexical, or a sentence-transformers folder.")
    ] = "auto",
    epochs: Annotated[int, typer.Option(min=1, help="Of the cross-encoder.")] = 1,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train SERAC's scope classifier, and its threshold, on a benchmark's questions in and out of scope."""
    from emend.evals.components.train_scope import ScopeRun, show_scope, train_scope_on

    told = ScopeRun(
        benchmark=benchmark,
        data=data,
        setting=setting,
        options=dict(pair(text, "--option") for text in option or ()),
        check=dict(pair(text, "--check") for text in check or ()),
        form=form,
        group=group,
        embedding=embedding,
        epochs=epochs,
        limit=limit,
        seed=seed,
    )
    _refuse_used(out)
    rows = train_scope_on(told, out)
    if as_json:
        print_rows([row.model_dump() for row in rows])
        return
    show_scope(rows, out)


@train.command()
def encoder(
    benchmark: Benchmark,
    out: Annotated[Path, typer.Option("--out", help="The folder that the adapter is written into.")],
    data: Data = None,
    setting: Setting = None,
    option: Option = None,
    check: Check = None,
    embedding: Annotated[
        str, typer.Option(help="The encoder to start from: minilm, or a sentence-transformers folder.")
    ] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the questions.")] = 1,
    rank: Annotated[int, typer.Option(min=1, help="Of the adapter.")] = 16,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Teach a sentence encoder which edit a benchmark's questions are about, as a LoRA adapter beside it."""
    from emend.agents.scope.encoder_training import EncoderTraining
    from emend.evals.components.train_encoder import show_encoder, train_encoder_on
    from emend.evals.components.train_scope import ScopeRun

    told = ScopeRun(
        benchmark=benchmark,
        data=data,
        setting=setting,
        options=dict(pair(text, "--option") for text in option or ()),
        check=dict(pair(text, "--check") for text in check or ()),
        embedding=embedding,
        limit=limit,
        seed=seed,
    )
    _refuse_used(out)
    rows = train_encoder_on(told, EncoderTraining(epochs=epochs, rank=rank, seed=seed), out)
    if as_json:
        print_rows([row.model_dump() for row in rows])
        return
    show_encoder(rows, embedding, out)
