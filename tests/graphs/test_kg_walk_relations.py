"""Relations in other words: which edits a walk links by an encoder, by the table of relations, or not at all."""

from collections.abc import Sequence

import numpy as np
import pytest

from emend.graphs.walk.relation_similarity import RelationSimilarity
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Vectors
from tests.graphs.kg_walks import ANA, OWN, fact, walk


def test_a_plan_in_the_order_of_the_question_is_followed_in_the_order_of_the_edits():
    """A relation that an edit has answered was asked once more, of the answer: *the river of Europe*."""
    river = fact("Pelham", "P206", "Danube", "The river that flows through {} is the")
    question = "On which continent does the river that flows through Pelham end?"
    final, _, model, _ = walk(" Pelham\nRelations: continent; river", " Europe", edits=(river,), prompt=question)
    assert final["reply"] == "Europe" and final["relations"] == ["river", "continent"] and len(model.calls) == 2
    question, plan = "Who governs the town where Ana Rojo was born?", " Ana Rojo\nRelations: mayor; birth"
    final, *_ = walk(plan, prompt=question, similarity=ALIKE)
    assert final["reply"] == "Paul Roy" and final["relations"] == ["birth", "mayor"] and len(final["hops"]) == 2


class Meanings:
    """A toy encoder: one axis for each group of words of the same meaning."""

    identity = "toy"
    groups = (
        ("birthplace", "born", "birth"),
        ("mayor", "governs"),
        ("origin", "created", "comes"),
        ("capital", "seat"),
        ("employer", "works"),
    )

    def documents(self, texts: Sequence[str]) -> Vectors:
        rows = [[float(any(word in text.lower() for word in group)) for group in self.groups] for text in texts]
        return np.array(rows, dtype=np.float32)

    queries = documents


ALIKE = RelationSimilarity(Meanings())


CREATED = fact("laddu", "P495", "Peru", "{} was created in the country of")


SEAT = fact("Peru", "P36", "El Campu", "The capital of {} is")


@pytest.mark.slow
def test_a_relation_that_is_worded_otherwise_is_linked_by_an_encoder():
    final, nodes, model, _ = walk(" laddu\nRelations: origin; seat", edits=(CREATED, SEAT), similarity=ALIKE)
    assert final["reply"] == "El Campu" and nodes[-2:] == ["compose", "respond"] and len(model.calls) == 1


def test_a_hop_that_the_plan_left_out_is_followed_if_the_question_asks_for_it():
    question = "What is the capital of the country where laddu was created?"
    final, *_ = walk(" laddu\nRelations: capital", edits=(CREATED, SEAT), similarity=ALIKE, prompt=question)
    assert final["reply"] == "El Campu" and ["relation" in hop for hop in final["hops"]] == [False, True]


def test_a_plan_that_ends_too_early_goes_on_if_the_question_asks_for_more():
    question = "What is the capital of the country where laddu was created?"
    final, *_ = walk(" laddu\nRelations: origin", edits=(CREATED, SEAT), similarity=ALIKE, prompt=question)
    assert final["reply"] == "El Campu"


def test_an_edit_that_the_question_does_not_ask_for_is_not_followed():
    works = fact("Ana Rojo", "employer", "Calder", "{} works for")
    final, *_ = walk(
        " Ana Rojo\nRelations: spouse",
        " Tom",
        OWN,
        edits=(works,),
        similarity=ALIKE,
        prompt="Who is Ana Rojo's spouse?",
    )
    assert final["hops"][0]["answer"] == "Tom" and final["reply"] == OWN


def test_edits_in_a_circle_are_followed_once_each_where_the_plan_does_not_ask_for_them():
    circle = (fact("laddu", "P495", "Peru", "{} was created in"), fact("Peru", "P495", "laddu", "{} was created in"))
    question = "Where was the thing created where laddu was created?"
    final, *_ = walk(" laddu\nRelations: origin", edits=circle, similarity=ALIKE, prompt=question)
    assert final["reply"] == "laddu" and len(final["hops"]) == 2


class Alike:
    """An encoder to which all wordings are alike."""

    identity = "alike"

    def documents(self, texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 1), dtype=np.float32)

    queries = documents


@pytest.mark.parametrize(
    ("relation", "edit"),
    [
        ("date of birth", fact("Ana Rojo", "P19", "Kesselby", "{} was born in the city of")),
        ("founder", fact("Ana Rojo", "P740", "Brask", "{} was founded in the city of")),
        ("head of state", fact("Ana Rojo", "P6", "Ida", "The head of government of {} is")),
        ("employer", fact("Ana Rojo", "P101", "law", "{} works in the field of")),
    ],
)
def test_relations_that_the_table_tells_apart_are_not_linked_however_alike_an_encoder_finds_them(
    relation: str, edit: Edit
):
    final, *_ = walk(
        f"{ANA}{relation}", " Eva", OWN, edits=(edit,), similarity=RelationSimilarity(Alike()), prompt="Who is it?"
    )
    assert final["reply"] == OWN and "fact" not in final["hops"][0]


def test_relations_that_the_table_takes_for_one_are_linked_however_unlike_an_encoder_finds_them():
    edit = fact("Ana Rojo", "P27", "Peru", "{} is a citizen of")
    final, _, model, _ = walk(f"{ANA}nationality", edits=(edit,), similarity=ALIKE, prompt="Where to?")
    assert final["reply"] == "Peru" and len(model.calls) == 1
