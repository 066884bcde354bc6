"""Prefixes, pooling and similarity that the papers' embedding models need, by the model's name."""

import re
from typing import Any, NamedTuple


class ModelFamily(NamedTuple):
    """Prefixes of queries and passages; `dot` means vectors that are not normalised, compared by dot product."""

    query: str = ""
    passage: str = ""
    dot: bool = False


# Both mean-pool over the tokens that are no padding. Contriever: Izacard et al. 2022, section 3, and its model card;
# mContriever the same in 29 languages. E5: Wang et al. 2022, section 4.3, and its model card.
_FAMILIES = (
    (re.compile(r"(?:^|[-_])m?contriever(?:[-_]|$)", re.I), ModelFamily(dot=True)),
    (re.compile(r"(?:^|[-_])e5(?:[-_]|$)", re.I), ModelFamily(query="query: ", passage="passage: ")),
)
DOT = "dot"
"""Last part of the identity of an embedding whose vectors are not normalised."""


def find_family(name: str) -> ModelFamily:
    """The family recognised by the last part of a model's name or folder; MiniLM and all others need no settings.

    `facebook/contriever-msmarco`, `facebook/mcontriever` and `models/multilingual-e5-large` are known.
    """
    last = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return next((family for pattern, family in _FAMILIES if pattern.search(last)), ModelFamily())


def shaped(model: Any, family: ModelFamily) -> Any:
    """A sentence-transformers model with its family's pooling and prefixes; prompts that it has are kept.

    For a model whose vectors are not normalised, modules behind the pooling (a normalisation) are left out.
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
