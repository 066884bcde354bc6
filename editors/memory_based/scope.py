"""The scope classifier that an editor works with: one that was trained, one from examples, or the default."""

import logging
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from emend.agents.scope.base import Scope
from emend.agents.scope.examples import examples_of
from emend.agents.scope.features import EmbeddingScope
from emend.agents.scope.load import load_scope
from emend.agents.scope.train import train_scope
from emend.editors.base import Materials
from emend.memory.embeddings.embed import LexicalEmbedding

ENOUGH = 20
"""So many examples in scope, and as many out of it, are needed to learn from; a threshold is chosen on them too, and
from the two to five of most benchmarks it came out anywhere between 0.005 and 0.56."""
CHOSEN = ({"threshold"}, {"upper", "lower"})
"""The settings of `serac` and of `crag` that take the place of the classifier's threshold."""
_warned: list[weakref.ref[Any]] = []


@dataclass(frozen=True)
class DefaultScope(EmbeddingScope):
    """The word form as it is before any training, with its threshold of one half.

    Of the examples of tinyworld, each asked about its own fact alone, it lets 97.6 % of those in scope through, and
    0.5 % of those out of it. On others it does worse, on some no better than a coin: see `docs/editors.md`.
    """

    @property
    def identity(self) -> str:
        """That of the weights, and that nothing was learned."""
        return f"default/{super().identity}"


def scope_for(materials: Materials, folder: str = "") -> Scope:
    """The classifier of a folder; without one, a small one trained on the demonstrations, about none of the cases.

    An example of copying or updating is in the scope of its fact, one of retaining is not. From fewer than `ENOUGH` of
    either nothing is learned: it is `DefaultScope` then, which is said once a run.

    Raises:
        MissingData: there is none in the folder. And what else loading it raises.
    """
    if folder:
        return load_scope(folder)
    told = [(one.prompt, one.fact, one.kind != "retain") for one in materials.demonstrations if one.fact]
    inside = sum(within for _, _, within in told)
    if min(inside, len(told) - inside) >= ENOUGH:
        texts, examples = examples_of(told)
        return train_scope(texts, examples, LexicalEmbedding(), seed=materials.seed).scope
    scope = DefaultScope()
    settled = {name for name, value in materials.settings.items() if value is not None}
    if not any(names <= settled for names in CHOSEN):
        _warn(materials, inside, len(told) - inside, scope.threshold)
    return scope


def _warn(materials: Materials, inside: int, outside: int, threshold: float) -> None:
    """Once for all editors of a run, which share its memory."""
    if _warned and _warned[0]() is materials.memory:
        return
    with suppress(TypeError):  # not everything can be referred to; of such a memory it is said again
        _warned[:] = [weakref.ref(materials.memory)]
    logging.getLogger(__name__).warning(
        "serac, crag: the scope classifier is untrained (%s examples in scope and %s out of it, %s of each are needed),"
        " so its threshold is the default, %s, and it may let in or leave out too much. Train one with emend train "
        "scope and give it with --set serac.scope=FOLDER (--set crag.scope=FOLDER), or choose the thresholds with "
        "--set serac.threshold=..., or crag.upper=... and crag.lower=...",
        inside,
        outside,
        ENOUGH,
        threshold,
    )


def told_of(scope: Scope) -> dict[str, Any]:
    """What of a classifier decides the answers."""
    return {"scope": scope.identity, "threshold": round(scope.threshold, 6)}
