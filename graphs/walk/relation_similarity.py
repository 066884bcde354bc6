"""Similarity of relations that an edit and a plan word differently, by a table of relation names
and a sentence encoder.

A sentence encoder alone confuses contrasting relations: `date of birth` is as similar to "was born
in the city of" as `place of birth` is. Two wordings that the table assigns to different relations
therefore never match.
"""

import re
from functools import lru_cache

from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import Embedding
from emend.memory.relations.relation_table import RelationTable
from emend.memory.retrieval.tokens import FUNCTION_WORDS, words

# Cosine thresholds. From SAME on, two wordings mean the same relation unless the table has them as
# different ones (true of 31 of MQuAKE's 36 relations with their edits, and of 7 of 1,260 other
# pairs). From ASKED on, a question asks for a relation (true of 75% of the relations of its chain,
# and of 1.8% of others). Below OTHER, two wordings mean different relations.
SAME, ASKED, OTHER = 0.45, 0.5, 0.25
# Maximum number of cached vectors, and of cached names.
CACHE = 65_536
_WIKIDATA_ID = re.compile(r"P\d+")
_NOUN = re.compile(r"the (?P<noun>.+?) (?:of|in|at) (?:is|are|was)", re.IGNORECASE)


class RelationSimilarity:
    """Comparison of relation wordings by the table of relations, else by the cosine of a sentence
    encoder.

    Vectors and names are cached.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._table = RelationTable.load()
        self._vector = lru_cache(CACHE)(lambda text: embedding.queries([text])[0])
        self._declared = lru_cache(CACHE)(self._find_name)

    def cosine(self, text: str, other: str) -> float:
        """Return the cosine of two wordings; 0 if one has no content words."""
        if not _has_content(text) or not _has_content(other):
            return 0.0
        first, second = self._vector(text), self._vector(other)
        return float(
            first @ second / max(float((first @ first) ** 0.5 * (second @ second) ** 0.5), 1e-9)
        )

    def compare(self, relation: str, triplet: Triplet, edit: Edit) -> float:
        """Return the similarity of a relation and a triplet's relation.

        It is 1 or 0 if the table has both, else the cosine of their wordings.
        """
        name, names = (
            self._declared(relation),
            [self._declared(each) for each in _phrases(triplet, edit)],
        )
        declared = [each for each in names if each]
        if name and declared:
            return float(name in declared)
        return self.cosine(relation, relation_wording(triplet, edit))

    def _find_name(self, wording: str) -> str:
        """Return the relation name that the table has for a wording; empty if it has none."""
        name = self._table.name_of(wording) if wording.strip() else ""
        return name if name in self._table.kinds else ""


def _has_content(wording: str) -> bool:
    return any(word not in FUNCTION_WORDS for word in words(wording))


def relation_wording(triplet: Triplet, edit: Edit) -> str:
    """Return the words of a triplet's relation, followed by the edit's prompt and question without
    the subject.

    Prompt and question are left out for a triplet that is not about the edit's subject.
    """
    question = (
        without_name(edit.question, triplet.subject) if triplet.subject == edit.subject else ""
    )
    return " ".join(dict.fromkeys((*_phrases(triplet, edit)[:2], question))).strip()


def _phrases(triplet: Triplet, edit: Edit) -> tuple[str, ...]:
    """Return the words of the relation, the prompt without the subject, and the noun of a prompt
    such as `The mayor of {} is`.

    Values that are missing are empty.
    """
    relation = "" if _WIKIDATA_ID.fullmatch(triplet.relation) else triplet.relation
    prompt = (
        " ".join(edit.prompt.replace("{}", " ").split()) if triplet.subject == edit.subject else ""
    )
    noun = _NOUN.fullmatch(prompt)
    return relation, prompt, noun["noun"] if noun else ""


def without_name(question: str, name: str) -> str:
    """Return a question without the name it is about, so that names do not raise the similarity."""
    return question.replace(name, "") if name else question
