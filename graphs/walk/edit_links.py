"""Triplets of the retrieved edits as links of a walk: which of them are about an entity."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from emend.graphs.rag import HitState
from emend.memory.edit import Edit, Triplet
from emend.memory.relations.edit_question import plain_name
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_text


class EditLink(NamedTuple):
    """Triplet of an edit with the edit and its retrieved entry; `order` is the edit's position in
    the order of application.
    """

    order: int
    hit: HitState
    triplet: Triplet
    edit: Edit


def edit_links(
    hits: Sequence[HitState], entity: str | None, edits: Mapping[str, Edit]
) -> Iterator[EditLink]:
    """Yield the triplets of the retrieved edits whose subject is the entity; for None all."""
    order = {edit_id: place for place, edit_id in enumerate(edits)}
    for hit in hits:
        edit = edits.get(hit["edit_id"])
        for triplet in triplets_of(edit):
            if edit is not None and (
                entity is None or plain_name(triplet.subject) == plain_name(entity)
            ):
                yield EditLink(order[edit.id], hit, triplet, edit)


def alike_links(
    hits: Sequence[HitState], entity: str, edits: Mapping[str, Edit]
) -> Iterator[EditLink]:
    """Yield the triplets whose subject contains the entity's name as whole words, or is contained
    in it.

    A model may recall an entity as `United States` where an edit has `United States of America`.
    """
    name = f" {plain_name(entity)} "
    for each in edit_links(hits, None, edits):
        subject = f" {plain_name(each.triplet.subject)} "
        if name.strip() and subject.strip() and (name in subject or subject in name):
            yield each


def speaks_of(hit: HitState, entity: str, edits: Mapping[str, Edit]) -> bool:
    """Return whether an entry is about an entity: a subject of its edit, or for an edit without
    triplets a name in its text.
    """
    name = plain_name(entity)
    subjects = [plain_name(triplet.subject) for triplet in triplets_of(edits.get(hit["edit_id"]))]
    return (
        name in subjects
        if subjects
        else bool(name) and whole(name).search(fold_text(hit["text"])) is not None
    )


def is_named(hit: HitState, question: str, edits: Mapping[str, Edit]) -> bool:
    """Return whether a question names a subject of an entry's edit; true for an edit without
    triplets.
    """
    subjects = [plain_name(triplet.subject) for triplet in triplets_of(edits.get(hit["edit_id"]))]
    return not subjects or any(
        subject and whole(subject).search(fold_text(question)) for subject in subjects
    )


def named_subjects(hits: Sequence[HitState], question: str, edits: Mapping[str, Edit]) -> list[str]:
    """Return the subjects of the retrieved edits that a question names as whole words, best
    first.
    """
    subjects = (link.triplet.subject for link in edit_links(hits, None, edits))
    plain = plain_name(question)
    return [
        subject
        for subject in dict.fromkeys(subjects)
        if (name := plain_name(subject)) and whole(name).search(plain)
    ]


def first_entity(planned: str, question: str, subjects: Sequence[str]) -> str:
    """Return the entity at which a walk begins: the planned one, or an edit's subject if the plan
    has only a part of its name, or a name that the question does not have.

    >>> question = "Who is the head of the company that makes the Quill phone?"
    >>> first_entity("Quill", question, ["Quill phone"])
    'Quill phone'
    >>> first_entity("Apple", question, ["Quill phone"])
    'Quill phone'
    >>> first_entity("company", question, ["Quill phone"])
    'company'

    Args:
        planned: the entity of the plan.
        question: the question.
        subjects: subjects of edits that the question names, best first.
    """
    name, plain = plain_name(planned), plain_name(question)
    if not name:
        return planned
    for subject in sorted(subjects, key=len, reverse=True):
        if whole(name).search(plain_name(subject)):
            rest = plain.replace(plain_name(subject), " ")
            return planned if whole(name).search(rest) else subject
    is_named = whole(name).search(plain) is not None
    return planned if is_named or not subjects else subjects[0]


def names(answer: str, triplet: Triplet) -> bool:
    """Return whether an answer, which may be a sentence of a small model, contains a triplet's
    object as whole words.
    """
    name = plain_name(triplet.object)
    return bool(name) and whole(name).search(fold_text(answer)) is not None


def triplets_of(edit: Edit | None) -> Iterator[Triplet]:
    """Yield the triplets of an edit that have an object; none for None or a document without
    triplets.
    """
    if edit is None:
        return
    if not edit.triplets and edit.subject and edit.target_new:
        yield Triplet(subject=edit.subject, relation=edit.prompt, object=edit.target_new)
    yield from (triplet for triplet in edit.triplets if triplet.object.strip())
