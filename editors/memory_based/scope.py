"""Scope classifiers of editors: from a folder, shipped, trained on demonstrations, or default."""

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

# Minimum number of demonstrations in scope, and out of scope, for training. With the two to five of
# most benchmarks, the threshold (chosen on the same data) varied from 0.005 to 0.56.
ENOUGH = 20
# Settings of `serac` and `crag` that replace the classifier's threshold.
CHOSEN = ({"threshold"}, {"upper", "lower"})
_warned: list[weakref.ref[Any]] = []


def load_scope_for(context: EditorContext, folder: str = "") -> Scope:
    """Return the classifier of a folder or, by default, the shipped one for the packaged MiniLM.

    For a lexical memory, which the shipped classifier does not support, a small classifier is
    trained on the demonstrations, none of which is a test case: `copy` and `update` are in the
    scope of their fact, `retain` is not. With fewer than `ENOUGH` demonstrations in or out of
    scope, `DefaultScope` is returned, with one warning per run.

    Raises:
        MissingData: the folder has no classifier.
    """
    if folder:
        return load_scope(folder)
    if (shipped := shipped_scope(getattr(context.memory, "embedding", None))) is not None:
        return shipped
    triples = [
        (shot.prompt, shot.fact, shot.kind != "retain")
        for shot in context.demonstrations
        if shot.fact
    ]
    inside = sum(in_scope for _, _, in_scope in triples)
    if min(inside, len(triples) - inside) >= ENOUGH:
        texts, examples = collect_examples(triples)
        with suppress(BadData):  # all demonstrations are about one fact
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
    # memories without weak references repeat the warning
    with suppress(TypeError):
        _warned[:] = [weakref.ref(context.memory)]
    logging.getLogger(__name__).warning(
        "serac, crag: the scope classifier compares words only, with threshold %s, and may accept "
        "or reject too much. Install the sentence encoder, for which Emend has a trained one: "
        f"{install_command('minilm')} (and --embedding auto); or train one with emend prepare "
        "scope and give it with --set serac.scope=FOLDER (--set crag.scope=FOLDER), or choose the "
        "thresholds with --set serac.threshold=..., or crag.upper=... and crag.lower=...",
        threshold,
    )
