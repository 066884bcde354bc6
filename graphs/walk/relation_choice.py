"""Choice of the edit whose relation a plan or a question asks for, by words or by a sentence
encoder.
"""

from collections.abc import Sequence, Set

from emend.graphs.walk.edit_links import EditLink
from emend.graphs.walk.relation_similarity import (
    ASKED,
    OTHER,
    SAME,
    RelationSimilarity,
    relation_wording,
)
from emend.memory.edit import Edit, Triplet
from emend.memory.relations.edit_question import prepositions
from emend.memory.retrieval.tokens import stems


def same_relation(
    links: Sequence[EditLink], relation: str, similarity: RelationSimilarity | None
) -> EditLink | None:
    """Return the link with all words of a relation, else the most similar one, ties to the last
    applied; None if there is none.
    """
    exact = [each for each in links if says_relation(relation, each.triplet, each.edit)]
    if exact or similarity is None:
        return max(exact, key=lambda each: each.order, default=None)
    scores = [similarity.compare(relation, each.triplet, each.edit) for each in links]
    best = max(
        zip(scores, links, strict=True), key=lambda pair: (pair[0], pair[1].order), default=None
    )
    return best[1] if best and best[0] >= SAME else None


def unplanned_relation(
    links: Sequence[EditLink], relation: str, question: str, similarity: RelationSimilarity
) -> EditLink | None:
    """Return the link that the question most clearly asks for, among those with a relation other
    than the planned one; None if there is none.
    """
    others = [(each, relation_wording(each.triplet, each.edit)) for each in links]
    others = [
        (each, wording) for each, wording in others if similarity.cosine(relation, wording) < OTHER
    ]
    scores = [(similarity.cosine(question, wording), each) for each, wording in others]
    best = max(scores, key=lambda pair: (pair[0], pair[1].order), default=None)
    return best[1] if best and best[0] >= ASKED else None


def worded_relation(
    links: Sequence[EditLink], open_words: Set[str], is_nested: bool
) -> EditLink | None:
    """Return the link whose statement, without subject and object, has only words of the question;
    of several, the one with the most words.

    "Who is the mayor of the city where Acme has its seat?" has all words of `Acme has its seat in
    the city of`, whatever relation the plan begins with.

    Args:
        links: edits of the current entity.
        open_words: stems of the question that no earlier hop has.
        is_nested: require further words in the question; "When was Ana born?" does not ask where.
    """
    scores: list[tuple[int, int, EditLink]] = []
    for edge in links:
        statement = statement_stems(edge)
        is_asked = bool(statement) and statement <= open_words
        subject = set(stems(edge.triplet.subject))
        if is_asked and not (is_nested and open_words <= statement | subject):
            scores.append((len(statement), edge.order, edge))
    return max(scores, key=lambda score: score[:2])[-1] if scores else None


def statement_stems(link: EditLink) -> Set[str]:
    """Return the stems of an edit's statement without its subject; for a further triplet of the
    edit, the stems of the relation.
    """
    is_main = link.triplet.subject == link.edit.subject
    wording = link.edit.cloze if is_main else link.triplet.relation
    return set(stems(wording)) - set(stems(link.triplet.subject))


def says_relation(relation: str, triplet: Triplet, edit: Edit) -> bool:
    """Return whether the triplet's relation with the edit's prompt and question has all words and
    prepositions of a relation.
    """
    wording = " ".join((triplet.relation, edit.prompt, edit.question))
    needed = set(stems(relation))
    return (
        bool(needed)
        and needed <= set(stems(wording))
        and prepositions(relation) <= prepositions(wording)
    )
