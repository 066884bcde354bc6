"""How alike two wordings of a relation are by a sentence encoder, for edits that are worded otherwise than a plan."""

import re
from functools import lru_cache

from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import Embedding

SAME, ASKED, OTHER = 0.45, 0.5, 0.25
"""Cosines from which two wordings are one relation (89% of the 36 relations of MQuAKE with their edits, and 2.7% of
other pairs), from which a question asks for a relation (75% of the chains' and 1.8% of others), and under which two
wordings are different relations."""
CACHE = 65_536
"""Vectors that are kept."""
_WIKIDATA_ID = re.compile(r"P\d+")


class RelationSimilarity:
    """Cosines of wordings by a sentence encoder; the vector of a wording is computed once."""

    def __init__(self, embedding: Embedding) -> None:
        self._vector = lru_cache(CACHE)(lambda text: embedding.queries([text])[0])

    def __call__(self, text: str, other: str) -> float:
        """The cosine of two wordings; 0 for a blank one."""
        if not text.strip() or not other.strip():
            return 0.0
        first, second = self._vector(text), self._vector(other)
        return float(first @ second / max(float((first @ first) ** 0.5 * (second @ second) ** 0.5), 1e-9))


def relation_wording(triplet: Triplet, edit: Edit) -> str:
    """A triplet's relation in words, with its edit's prompt and question about the subject, without the subject."""
    relation = "" if _WIKIDATA_ID.fullmatch(triplet.relation) else triplet.relation
    prompts = (edit.prompt.replace("{}", ""), without_name(edit.question, triplet.subject))
    about = prompts if triplet.subject == edit.subject else ()
    return " ".join(part.strip() for part in dict.fromkeys((relation, *about)) if part.strip())


def without_name(question: str, name: str) -> str:
    """A question without the name that it is about, so that names do not count as likeness."""
    return question.replace(name, "") if name else question
