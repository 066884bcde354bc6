"""The scope classifier that an editor works with: one that was trained, or one from the benchmark's own examples."""

from typing import Any

from emend.agents.scope import EmbeddingScope, Scope, load_scope
from emend.agents.scope_training import examples_of, train_scope
from emend.editors.base import Materials
from emend.memory.embed import LexicalEmbedding


def scope_for(materials: Materials, folder: str = "") -> Scope:
    """The classifier of a folder; without one, a small one trained on the demonstrations, about none of the cases.

    An example of copying or updating is in the scope of its fact, one of retaining is not.

    Raises:
        MissingData: there is none in the folder. And what else loading it raises.
    """
    if folder:
        return load_scope(folder)
    told = [(one.prompt, one.fact, one.kind != "retain") for one in materials.demonstrations if one.fact]
    texts, examples = examples_of(told)
    if len({example.about is None for example in examples}) < 2:  # of one kind alone nothing can be learned
        return EmbeddingScope()
    return train_scope(texts, examples, LexicalEmbedding(), seed=materials.seed).scope


def told_of(scope: Scope) -> dict[str, Any]:
    """What of a classifier decides the answers."""
    return {"scope": scope.identity, "threshold": round(scope.threshold, 6)}
