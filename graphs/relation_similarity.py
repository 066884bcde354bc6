"""Wordings of relations compared, for edits that are worded otherwise than a plan: a table of names, and an encoder.

A sentence encoder alone takes contrasts for likeness: `date of birth` is as near to "was born in the city of" as
`place of birth` is. So two wordings of which the table has two relations are never one.
"""

import re
from functools import lru_cache

from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import FUNCTION_WORDS, Embedding
from emend.memory.relations.relation_table import RelationTable
from emend.memory.retrieval.tokens import words

SAME, ASKED, OTHER = 0.45, 0.5, 0.25
"""Cosines from which two wordings are one relation, unless the table says otherwise (31 of the 36 relations of MQuAKE
with their edits, and 7 of 1,260 other pairs), from which a question asks for a relation (75% of the chains' and
1.8% of others), and under which two wordings are different relations."""
CACHE = 65_536
"""Vectors and names that are kept."""
_WIKIDATA_ID = re.compile(r"P\d+")
_NOUN = re.compile(r"the (?P<noun>.+?) (?:of|in|at) (?:is|are|was)", re.IGNORECASE)


class RelationSimilarity:
    """Compares wordings by declared relations, else by the cosine of a sentence encoder; each is computed once."""

    def __init__(self, embedding: Embedding) -> None:
        self._table = RelationTable.load()
        self._vector = lru_cache(CACHE)(lambda text: embedding.queries([text])[0])
        self._declared = lru_cache(CACHE)(self._find_name)

    def cosine(self, text: str, other: str) -> float:
        """The cosine of two wordings; 0 for one without content words."""
        if not _has_content(text) or not _has_content(other):
            return 0.0
        first, second = self._vector(text), self._vector(other)
        return float(first @ second / max(float((first @ first) ** 0.5 * (second @ second) ** 0.5), 1e-9))

    def compare(self, relation: str, triplet: Triplet, edit: Edit) -> float:
        """How alike a relation and a triplet's are: 1 or 0 if both are declared, else the cosine of their wordings."""
        name, names = self._declared(relation), [self._declared(each) for each in _phrases(triplet, edit)]
        declared = [each for each in names if each]
        if name and declared:
            return float(name in declared)
        return self.cosine(relation, relation_wording(triplet, edit))

    def _find_name(self, wording: str) -> str:
        """The declared name of a wording; empty for one that is not declared."""
        name = self._table.name_of(wording) if wording.strip() else ""
        return name if name in self._table.kinds else ""


def _has_content(wording: str) -> bool:
    return any(word not in FUNCTION_WORDS for word in words(wording))


def relation_wording(triplet: Triplet, edit: Edit) -> str:
    """A triplet's relation in words, with its edit's prompt and question about the subject, without the subject."""
    question = without_name(edit.question, triplet.subject) if triplet.subject == edit.subject else ""
    return " ".join(dict.fromkeys((*_phrases(triplet, edit)[:2], question))).strip()


def _phrases(triplet: Triplet, edit: Edit) -> tuple[str, ...]:
    """The relation in words, the prompt without the subject, and the noun in a prompt such as `The mayor of {} is`."""
    relation = "" if _WIKIDATA_ID.fullmatch(triplet.relation) else triplet.relation
    prompt = " ".join(edit.prompt.replace("{}", " ").split()) if triplet.subject == edit.subject else ""
    noun = _NOUN.fullmatch(prompt)
    return relation, prompt, noun["noun"] if noun else ""


def without_name(question: str, name: str) -> str:
    """A question without the name that it is about, so that names do not count as likeness."""
    return question.replace(name, "") if name else question
