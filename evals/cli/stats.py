"""The command `emend stats`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json, Set, local_model, overrides_of, print_rows
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.agents.local.causal_lm import CausalLM
    from emend.evals.components.corpora import TextCorpus


def stats(
    model: Annotated[str, typer.Option(help="tiny, or hf:FOLDER.")],
    corpus: Annotated[
        list[str],
        typer.Option(
            metavar="FILE...", help=".txt (a text a line), .jsonl (field text), or a dataset: hf:NAME[:CONFIG[:SPLIT]]."
        ),
    ],
    more: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", hidden=True)] = None,
    layers: Annotated[
        str | None, typer.Option(help="Numbers such as 3,4,5; default those that rome and memit write to.")
    ] = None,
    cap: Annotated[int, typer.Option(min=1, help="Tokens of a piece of text at most.")] = 512,
    texts: Annotated[int | None, typer.Option(min=1, help="The first so many texts.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder; default the cache, where editors look by themselves.")
    ] = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Collect what rome, memit and alphaedit must know of usual text; the same command again goes on."""
    from emend.evals.components.corpora import read_corpus
    from emend.evals.log.config import MODEL

    overrides = overrides_of(settings or [])
    read = read_corpus([*corpus, *(more or ())], texts)
    try:
        with local_model(model, overrides.pop(MODEL, {})) as loaded:
            _collect(loaded.lm, model, read, _numbers(layers), cap, out, overrides, as_json)
    except KeyboardInterrupt:
        typer.echo("\ninterrupted: the same command goes on from what was kept last.", err=True)
        raise typer.Exit(130) from None


def _collect(
    lm: "CausalLM",
    model: str,
    read: "TextCorpus",
    layers: list[int] | None,
    cap: int,
    out: Path | None,
    overrides: dict[str, dict[str, Any]],
    as_json: bool,
) -> None:
    from emend.editors.numerics.architectures import ARCHITECTURES, architecture_of, layer_of
    from emend.editors.numerics.collect_covariance import collect
    from emend.editors.numerics.covariance import statistics_folder, too_little
    from emend.editors.numerics.key_sums import key_size
    from emend.editors.parametric.covariance_layers import writing_settings, written_layers
    from emend.evals.report.statistics import showing

    settings = writing_settings(lm, overrides)
    given = next((each.architecture for each in settings if each.architecture), None)
    numbers = sorted({layer_of(lm.model, layer) for layer in layers or written_layers(settings)})
    paths = architecture_of(lm.model, given, ("down_projection",), numbers)
    folder = out or statistics_folder(lm, f"{read.name}-{cap}")
    with showing(read.count) as told:
        found = collect(lm, paths, numbers, read, folder, cap=cap, corpus=read.name, progress=told)
    if said := too_little(folder, key_size(lm, paths, numbers[0])):
        typer.echo(said, err=True)
    if as_json:
        print_rows([{"folder": str(folder), "layers": numbers, **found.model_dump()}])
        return
    typer.echo(f"layers {', '.join(map(str, numbers))}: {found.tokens:,} tokens of {found.texts:,} texts, in {folder}")
    unknown = lm.model.config.model_type not in ARCHITECTURES
    typer.echo(f"Use them: {_use(model, numbers, folder, unknown)} ...")


def _use(model: str, layers: list[int], folder: Path, unknown: bool) -> str:
    """A command that edits with these statistics; the paths of an unknown architecture must be told there too."""
    method = "memit" if len(layers) > 1 else "rome"
    told = [f"{method}.statistics={folder}", f"{method}.layers={layers}".replace(" ", "")]
    given = " ".join(f"--set {shlex.quote(setting)}" for setting in told)
    paths = f" --set {method}=@FILE (of its [architecture])" if unknown else ""
    return f"emend edit --model {shlex.quote(model)} --method {method} {given}{paths}"


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise BadSettings(f"--layers '{text}' are no numbers: write for example --layers 3,4,5.") from error
