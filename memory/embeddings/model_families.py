"""How the models of the papers must be asked: prefixes, pooling and likeness, by the model's name."""

import re
from typing import Any, NamedTuple


class Family(NamedTuple):
    """What stands before queries and passages; whether vectors keep their length and are compared by dot product."""

    query: str = ""
    passage: str = ""
    dot: bool = False


# Both mean-pool over the tokens that are no padding. Contriever: Izacard et al. 2022, section 3, and its model card;
# mContriever the same in 29 languages. E5: Wang et al. 2022, section 4.3, and its model card.
_FAMILIES = (
    (re.compile(r"(?:^|[-_])m?contriever(?:[-_]|$)", re.I), Family(dot=True)),
    (re.compile(r"(?:^|[-_])e5(?:[-_]|$)", re.I), Family(query="query: ", passage="passage: ")),
)
DOT = "dot"
"""Last part of the identity of an embedding whose vectors keep their length."""


def family_of(name: str) -> Family:
    """The family that the last part of a model's name or folder tells; MiniLM and all others need nothing.

    `facebook/contriever-msmarco`, `facebook/mcontriever` and `models/multilingual-e5-large` are known.
    """
    last = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return next((family for pattern, family in _FAMILIES if pattern.search(last)), Family())


def shaped(model: Any, family: Family) -> Any:
    """A sentence-transformers model, pooled and asked as its family is; its own prompts, if it has some, are kept.

    Of a model that keeps its vectors' length, what was saved after the pooling (a normalisation) is left out.
    """
    if family.dot:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling

        body = model[0]
        pooled = Pooling(model.get_embedding_dimension(), pooling_mode="mean")
        model = SentenceTransformer(modules=[body, pooled], device=str(model.device), prompts=model.prompts)
    for name, prefix in (("query", family.query), ("document", family.passage)):
        if prefix and not model.prompts.get(name):
            model.prompts[name] = prefix
    return model.eval()
