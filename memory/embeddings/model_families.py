"""Prefixes, pooling and similarity of the papers' embedding models, by the model's name."""

import re
from typing import Any, NamedTuple


class ModelFamily(NamedTuple):
    """Prefixes of queries and passages; `dot` means vectors that are not normalised, compared by
    dot product.
    """

    query: str = ""
    passage: str = ""
    dot: bool = False


# Both use mean pooling over non-padding tokens. Contriever: Izacard et al. 2022, section 3, and its
# model card; mContriever is its multilingual version (29 languages). E5: Wang et al. 2022, section
# 4.3, and its model card.
_FAMILIES = (
    (re.compile(r"(?:^|[-_])m?contriever(?:[-_]|$)", re.I), ModelFamily(dot=True)),
    (
        re.compile(r"(?:^|[-_])e5(?:[-_]|$)", re.I),
        ModelFamily(query="query: ", passage="passage: "),
    ),
)
# Suffix of the identity of an embedding whose vectors are not normalised.
DOT = "dot"


def find_family(name: str) -> ModelFamily:
    """Return the family given by the last part of a model's name or folder; MiniLM and all other
    models need no settings.

    `facebook/contriever-msmarco`, `facebook/mcontriever` and `models/multilingual-e5-large` are
    examples of recognised names.
    """
    last = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return next((family for pattern, family in _FAMILIES if pattern.search(last)), ModelFamily())


def shaped(model: Any, family: ModelFamily) -> Any:
    """Return a sentence-transformers model with its family's pooling and prefixes; the model's own
    prompts are kept.

    For a family without normalised vectors, modules after the pooling (normalisation) are removed.
    """
    if family.dot:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling

        body = model[0]
        pooled = Pooling(model.get_embedding_dimension(), pooling_mode="mean")
        model = SentenceTransformer(
            modules=[body, pooled], device=str(model.device), prompts=model.prompts
        )
    for name, prefix in (("query", family.query), ("document", family.passage)):
        if prefix and not model.prompts.get(name):
            model.prompts[name] = prefix
    return model.eval()
