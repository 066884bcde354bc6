"""Build a benchmark from Python: the function that `emend build` calls too."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.evals.config.build_config import BuildConfig
from emend.memory.registry import trust_typed

if TYPE_CHECKING:
    from emend.evals.build.card import Card


def build(kind: str, source: str | Path, model: str = "", *, out: str | Path, **options: Any) -> "Card":
    """Build a benchmark, or finish the one that the folder holds, and return its card.

    The folder is a benchmark of `emend.run`.

    Args:
        kind: `akew`, `wikiupdate`, `questions`, `chains`, `docter`, `elken` or `fresh`.
        source: file, folder or benchmark to build from.
        model: the author, as in `emend build --model`; kinds `chains` and `elken` need none.
        out: the benchmark's folder.
        options: as the options of `emend build`: fields of `BuildConfig`.

    Raises:
        ValidationError: an option does not exist or has the wrong type.
        RunRefused: the folder holds another construction, or is in use.
        EmendError: a name, setting, source or file is wrong, or no item was kept.
    """
    from emend.evals.build.build import build as build_folder

    config = BuildConfig.model_validate({"source": str(source), "model": model} | options)
    trust_typed([model, config.judge, config.source, config.overrides])
    return build_folder(kind, config, Path(out))
