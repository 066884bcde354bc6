"""Scope classifiers of editors: one from a folder, the shipped one, a small one from demonstrations, or the default."""

import logging
import weakref
from contextlib import suppress
from typing import Any

from emend.agents.scope.base import Scope
from emend.agents.scope.examples import collect_examples
from emend.agents.scope.load import load_scope, shipped_scope
from emend.agents.scope.logistic import DefaultScope
from emend.agents.scope.train import train_scope
from emend.editors.base import EditorContext
from emend.memory.distribution import install_command
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData

ENOUGH = 20
"""Minimum number of demonstrations in scope, and out of it, to train on; a threshold is chosen on them too, and from
the two to five of most benchmarks it came out anywhere between 0.005 and 0.56."""
CHOSEN = ({"threshold"}, {"upper", "lower"})
"""Settings of `serac` and of `crag` that replace the classifier's threshold."""
_warned: list[weakref.ref[Any]] = []


def load_scope_for(context: EditorContext, folder: str = "") -> Scope:
    """The classifier of a folder; without one, the shipped one over the packaged MiniLM.

    With a lexical memory, which the shipped one is not for, it is a small one trained on the demonstrations, none of
    which is a case: one of copying or updating is in the scope of its fact, one of retaining is not. With fewer than
    `ENOUGH` of either, it is `DefaultScope`, with one warning a run.

    Raises:
        MissingData: there is none in the folder.
    """
    if folder:
        return load_scope(folder)
    if (shipped := shipped_scope(getattr(context.memory, "embedding", None))) is not None:
        return shipped
    triples = [(shot.prompt, shot.fact, shot.kind != "retain") for shot in context.demonstrations if shot.fact]
    inside = sum(in_scope for _, _, in_scope in triples)
    if min(inside, len(triples) - inside) >= ENOUGH:
        texts, examples = collect_examples(triples)
        with suppress(BadData):  # all about one fact
            return train_scope(texts, examples, LexicalEmbedding(), seed=context.seed).scope
    scope = DefaultScope()
    overridden = {name for name, value in context.settings.items() if value is not None}
    if not any(names <= overridden for names in CHOSEN):
        _warn(context, scope.threshold)
    return scope


def _warn(context: EditorContext, threshold: float) -> None:
    """Log a warning once for all editors of a run, which share its memory."""
    if _warned and _warned[0]() is context.memory:
        return
    with suppress(TypeError):  # some memories cannot be referred to weakly; for those the warning repeats
        _warned[:] = [weakref.ref(context.memory)]
    logging.getLogger(__name__).warning(
        "serac, crag: the scope classifier compares words only, with threshold %s, and may accept or reject too much. "
        f"Install the sentence encoder, for which Emend has a trained one: {install_command('minilm')} (and "
        "--embedding auto); or train one with emend train scope and give it with --set serac.scope=FOLDER (--set "
        "crag.scope=FOLDER), or choose the thresholds with --set serac.threshold=..., or crag.upper=... and "
        "crag.lower=...",
        threshold,
    )
