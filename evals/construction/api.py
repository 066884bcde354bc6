"""Python API of benchmark construction, `emend.build`."""

from pathlib import Path
from typing import Any

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.named_options import from_options
from emend.evals.construction.build import build as build_folder
from emend.evals.construction.card import Card
from emend.memory.registry import trust_typed


def build(
    kind: str, source: str | Path, model: str = "", *, out: str | Path, **options: Any
) -> Card:
    """Build a benchmark, or continue an interrupted build, and return its card.

    `emend.run` accepts the folder as a benchmark.

    Args:
        kind: `akew`, `wikiupdate`, `questions`, `chains`, `docter`, `elken`, `facts`, `recoe`,
            `tendencies`, `fresh`, a kind of an installed package, or `module:attribute`.
        source: file, folder or benchmark to build from.
        model: author model, as in `emend build --model`; optional for kinds whose items are
            composed by rules, such as `chains` and `elken`.
        out: benchmark folder.
        options: options of `emend build`, which are the fields of `BuildConfig`.

    Raises:
        BadSettings: an option does not exist or has the wrong type.
        RunRefused: the folder holds another construction, or is in use.
        EmendError: a name, setting, source or file is invalid, or no item was kept.
    """
    fields = {"source": str(source), "model": model} | options
    config = from_options(BuildConfig, fields, "out")
    trust_typed([kind, model, config.judge, config.source, config.overrides])
    return build_folder(kind, config, Path(out))
