"""The command `emend prepare covariance`."""

import shlex
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from emend.evals.cli.options import Json, Settings, local_model, parse_overrides
from emend.evals.cli.output import emit, interrupts_as_exit, print_text
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.agents.local.causal_lm import CausalLM
    from emend.editors.numerics.architectures import Architecture
    from emend.editors.numerics.collect_covariance import CorpusCounts
    from emend.evals.measure.text_corpora import TextCorpus

# Number of texts from which the total number of tokens is estimated.
SAMPLE = 16


Corpus = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE...",
        help="Texts: .txt (one per line), .jsonl (field text), factbook (The World Factbook, "
        "offline), or a dataset: hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT; default: 256 "
        "texts of factbook.",
    ),
]
Published = Annotated[
    list[Path] | None,
    typer.Option(
        "--import",
        metavar="FILE...",
        help="Published covariances, as .npz files written by ROME's code.",
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Layers, such as 3,4,5; default: all layers that editors need for this model.",
    ),
]
TokenLimit = Annotated[
    int, typer.Option(metavar="N", min=1, help="Maximum number of tokens per text.")
]
TextLimit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Maximum number of texts to read; default: all."),
]
StatisticsFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Target folder; default: the cache, in which editors look for it.",
    ),
]


def covariance(
    model: Annotated[str, typer.Option(metavar="MODEL", help="Local model: tiny or hf:FOLDER.")],
    corpus: Corpus = None,
    published: Published = None,
    more_files: Annotated[list[str] | None, typer.Argument(metavar="FILE", hidden=True)] = None,
    layers: Layers = None,
    cap: TokenLimit = 512,
    texts: TextLimit = None,
    out: StatisticsFolder = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Collect the key covariance statistics that ROME, MEMIT and AlphaEdit need; repeat the command
    to continue.
    """
    from emend.evals.config.overrides import MODEL
    from emend.evals.measure.text_corpora import FACTBOOK, FACTBOOK_TEXTS, read_corpus

    overrides, numbers = parse_overrides(settings or []), _parse_layers(layers)
    if corpus and published:
        raise BadSettings(
            "give texts with --corpus, or published covariances with --import, not both."
        )
    named = [*(corpus or ()), *(more_files or ())]
    most = texts if named else texts or FACTBOOK_TEXTS
    read = None if published else read_corpus(named or [FACTBOOK], most)
    stops = (
        interrupts_as_exit("the same command continues from the last saved state.")
        if read
        else nullcontext()
    )
    with stops, local_model(model, overrides.pop(MODEL, {})) as loaded:
        if read is None:
            files = [*(published or ()), *map(Path, more_files or ())]
            statistics = _import(loaded.lm, files, numbers, out, overrides)
        else:
            statistics = _collect(loaded.lm, read, numbers, cap, out, overrides)
        _show(loaded.lm, model, statistics, as_json)


class Statistics(NamedTuple):
    """Covariances in a folder: paths of the model, layers, and numbers of texts and tokens."""

    paths: "Architecture"
    layers: list[int]
    folder: Path
    counts: "CorpusCounts"


def _settings(lm: "CausalLM", overrides: dict[str, dict[str, Any]]) -> tuple[set[int], Any]:
    """Return the layers that the editors need, and the paths of a custom architecture."""
    from emend.editors.parametric.covariance_layers import covariance_settings

    settings = covariance_settings(lm, overrides).values()
    custom_paths = next((each.architecture for each in settings if each.architecture), None)
    return {layer for each in settings for layer in each.layers}, custom_paths


def _collect(
    lm: "CausalLM",
    corpus: "TextCorpus",
    layers: list[int] | None,
    cap: int,
    out: Path | None,
    overrides: dict[str, dict[str, Any]],
) -> Statistics:
    from emend.editors.numerics.architectures import find_architecture, resolve_layer
    from emend.editors.numerics.collect_covariance import collect_covariance
    from emend.editors.numerics.covariance import covariance_folder
    from emend.evals.show.report.progress import counter

    needed, custom_paths = _settings(lm, overrides)
    numbers = sorted({resolve_layer(lm.model, layer) for layer in layers or needed})
    paths = find_architecture(lm.model, custom_paths, ("down_projection",), numbers)
    folder = out or covariance_folder(lm, f"{corpus.name}-{cap}")
    _print_cost(lm, paths, numbers, corpus)
    with counter("reading", "texts", corpus.count) as update:

        def on_progress(texts: int, tokens: int) -> None:
            update(texts, f"{tokens:,} tokens")

        counts = collect_covariance(
            lm, paths, numbers, corpus, folder, cap=cap, corpus=corpus.name, progress=on_progress
        )
    return Statistics(paths, numbers, folder, counts)


def _import(
    lm: "CausalLM",
    files: list[Path],
    layers: list[int] | None,
    out: Path | None,
    overrides: dict[str, dict[str, Any]],
) -> Statistics:
    from emend.editors.numerics.architectures import find_architecture
    from emend.editors.numerics.covariance import covariance_folder
    from emend.editors.numerics.import_covariance import (
        digest_of_files,
        import_covariance,
        layers_of_names,
    )

    paths = find_architecture(lm.model, _settings(lm, overrides)[1], ("down_projection",))
    folder = out or covariance_folder(lm, f"imported-{digest_of_files(files)}")
    numbers = layers or layers_of_names(files)
    return Statistics(
        paths, sorted(numbers), folder, import_covariance(lm, paths, numbers, files, folder)
    )


def _show(lm: "CausalLM", model: str, statistics: Statistics, as_json: bool) -> None:
    from emend.editors.numerics.covariance import scarcity_warning
    from emend.editors.numerics.key_sums import key_size

    paths, numbers, folder, counts = statistics
    if warning := scarcity_warning(folder, key_size(lm, paths, numbers[0])):
        print_text(warning, err=True)
    amount = f"{counts.tokens:,} tokens of {counts.texts:,} texts"
    lines = f"layers {', '.join(map(str, numbers))}: {amount}, in {folder}\n"
    lines += f"Use them: {_edit_command(lm, model, numbers, folder)} ..."
    row = {"folder": str(folder), "layers": numbers, **counts.model_dump()}
    emit([row], as_json, lambda console: print_text(lines))


def _print_cost(
    lm: "CausalLM", paths: "Architecture", layers: list[int], corpus: "TextCorpus"
) -> None:
    """Print the estimated time of a collection, and the memory of its sums.

    The number of tokens is estimated from the first texts.
    """
    from emend.editors.device_speed import device_speed
    from emend.editors.numerics.key_sums import key_size, pass_parameters
    from emend.evals.show.report.progress import duration

    sample = [len(lm.encode(text)) for text in islice(corpus, SAMPLE)]
    if corpus.count is None or not sample:
        return
    tokens = round(sum(sample) / len(sample) * corpus.count)
    # one multiplication and one addition each, like a weight
    products = len(layers) * key_size(lm, paths, layers[0]) ** 2
    seconds = tokens * device_speed(pass_parameters(lm, paths, layers) + products).reading
    print_text(
        f"layers {', '.join(map(str, layers))}: about {tokens:,} tokens, {duration(seconds)} and "
        f"{8 * products / 2**20:,.0f} MiB in addition to the model",
        err=True,
    )


def _edit_command(lm: "CausalLM", model: str, layers: list[int], folder: Path) -> str:
    """Return the command that edits with this covariance.

    A custom architecture's paths must be given there too.
    """
    from emend.editors.hyperparameters import shipped_settings
    from emend.editors.numerics.architectures import ARCHITECTURES

    config = lm.model.config
    shipped = {name: shipped_settings(name, config)["layers"] for name in ("memit", "rome")}
    method = next((name for name, needed in shipped.items() if set(needed) <= set(layers)), None)
    settings = [f"{method or 'rome'}.covariance={folder}"] + (
        [] if method else [f"rome.layers=[{layers[0]}]"]
    )
    options = " ".join(f"--set {shlex.quote(setting)}" for setting in settings)
    custom = config.model_type not in ARCHITECTURES
    paths = ""
    if custom:
        paths = f" --set {method or 'rome'}=@FILE (of its [architecture])"
    return f"emend edit --model {shlex.quote(model)} --method {method or 'rome'} {options}{paths}"


def _parse_layers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise BadSettings(
            f"--layers '{text}' are not numbers: write for example --layers 3,4,5."
        ) from error
