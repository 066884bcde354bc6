"""The training documents: what is withheld stays withheld, and the answers that they teach are right."""

import random
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from transformers import PreTrainedTokenizerFast

from emend.agents.tiny import texts_of_the_world
from emend.agents.tiny.world import World, WorldFact, relations
from scripts.tiny.corpus import Document, FactSampler, Writer
from scripts.tiny.negatives import Negatives
from scripts.tiny.reasoning import Part, Reasoning, TrainingCorpus
from scripts.tiny.texts import texts
from scripts.tiny.tokens import BOS, EOS, VOCABULARY, encode

WORLD = World()


@pytest.mark.slow
def test_the_shipped_texts_are_those_of_the_corpus() -> None:
    assert texts_of_the_world() == texts()


def text(document: Document) -> str:
    return "".join(span.text for span in document)


@pytest.fixture(scope="module")
def negatives() -> Negatives:
    return Negatives(WORLD)


@pytest.fixture(scope="module")
def documents(negatives: Negatives) -> list[Document]:
    corpus = TrainingCorpus(WORLD, 5, negatives)
    return [corpus.document() for _ in range(4000)]


@pytest.fixture(scope="module")
def drill(negatives: Negatives) -> list[Document]:
    corpus = TrainingCorpus(WORLD, 5, negatives, "drill")
    return [corpus.document() for _ in range(4000)]


def test_the_same_seed_gives_the_same_documents_without_first_hops_that_lead_nowhere() -> None:
    one, other = TrainingCorpus(WORLD, 1), TrainingCorpus(WORLD, 1)
    assert [one.document() for _ in range(50)] == [other.document() for _ in range(50)]
    reasoning = Reasoning(Writer(Breaking(WORLD, TrainingCorpus(WORLD, 6).rng, None)))
    for _ in range(500):
        assert text(reasoning.thoughts()).count("Subquestion:") == 2


@pytest.mark.slow
def test_held_subjects_are_not_edited_in_a_context(documents: list[Document]) -> None:
    """Except where a coined name happens to be one of them, less than once in a thousand contexts."""
    forms = [
        (form, subject)
        for relation in relations().values()
        for form in relation.statements + relation.events
        for subject in WORLD.held & set(WORLD.names[relation.subject])
    ]
    told = {form.format(subject) for form, subject in forms}
    contexts = [line for d in documents for line in text(d).split("\n") if line.startswith(("New Fact:", "Fact:"))]
    assert len(contexts) > 1000
    leaked = [line for line in contexts for sentence in told if f": {sentence} " in line]
    assert len(leaked) < len(contexts) / 1000


@pytest.mark.slow
def test_unseen_templates_never_occur(documents: list[Document], drill: list[Document]) -> None:
    everything = "\n".join(map(text, documents + drill))
    for relation in relations().values():
        for template in relation.unseen_questions:
            pattern = re.escape(template).replace(r"\{\}", r"[A-Z][\w ]+?")
            assert not re.search(pattern, everything), template


@pytest.mark.slow
def test_drilled_questions_are_for_the_drill_alone(documents: list[Document], drill: list[Document]) -> None:
    drilled = [form.split(" {}")[0] for relation in relations().values() for form in relation.drilled_questions]
    assert drilled
    for form in drilled:
        assert not any(form in text(document) for document in documents), form
        assert any(form in text(document) for document in drill), form


def test_the_drill_has_more_chains_and_more_facts_about_the_same_subject() -> None:
    usual, drilled = (
        FactSampler(WORLD, random.Random(3), None),
        FactSampler(WORLD, random.Random(3), None, same_subject=0.4),
    )
    asked = usual.known[:300]
    same = [sum(f.distractor(a.subject, a.relation).subject == a.subject for a in asked) for f in (usual, drilled)]
    assert same[1] > 1.5 * same[0]
    parts = get_args(Part)
    shares = [{make.__name__: share for make, share in TrainingCorpus(WORLD, 1, part=part).mix} for part in parts]
    assert shares[1]["chain"] > 2 * shares[0]["chain"] and shares[1]["decisions"] > shares[0]["decisions"]


def test_examples_in_a_row_are_for_the_last_part_and_half_of_them_use_their_fact() -> None:
    by_part = {part: dict(TrainingCorpus(WORLD, 1, part=part).mix) for part in get_args(Part)}
    shares = {part: {make.__name__: share for make, share in mix.items()} for part, mix in by_part.items()}
    assert [shares[part]["examples"] for part in ("whole", "drill")] == [0.0, 0.0]
    assert shares["examples"]["examples"] > 0.2
    make = next(make for make in by_part["examples"] if make.__name__ == "examples")
    blocks = [block for _ in range(300) for block in text(make()).split("\n\n")]
    assert all(block.startswith("New Fact: ") for block in blocks)
    told, asked = zip(*(block.split("\n", 1) for block in blocks), strict=True)
    used = sum(ask.removesuffix(".").rsplit(" ", 1)[-1] in tell for tell, ask in zip(told, asked, strict=True))
    assert 0.45 < used / len(blocks) < 0.65
    assert 0.5 < sum("Prompt:" in ask for ask in asked) / len(blocks) < 0.7


def test_plain_statements_tell_the_truth_about_the_world() -> None:
    corpus = TrainingCorpus(WORLD, 9)
    statement = next(make for make, _ in corpus.mix if make.__name__ == "statement")
    truths = {
        f"{form.format(fact.subject)} {fact.object}"
        for fact in WORLD.facts
        for form in relations()[fact.relation].statements
    }
    for _ in range(300):
        for sentence in re.split(r"\.\s?", text(statement())):
            assert not sentence or sentence in truths


@pytest.mark.slow
def test_chains_end_with_the_last_intermediate_answer(documents: list[Document]) -> None:
    chains = [text(d) for d in documents if "intermediate answer" in text(d) and "Final answer:" in text(d)]
    assert len(chains) > 100
    for chain in chains:
        last = re.findall(r"intermediate answer is: (.+)", chain)[-1]
        assert chain.endswith(f"Final answer: {last}")


def test_every_kind_comes_up_in_about_its_share_and_a_document_edit_contains_its_new_fact() -> None:
    corpus = TrainingCorpus(WORLD, 2)
    counted = Counter(make.__name__ for make, _ in corpus.rng.choices(corpus.mix, [w for _, w in corpus.mix], k=20_000))
    for make, share in corpus.mix:
        assert counted[make.__name__] / 20_000 == pytest.approx(share, abs=0.015)
    facts = FactSampler(WORLD, TrainingCorpus(WORLD, 4).rng, None)
    writer = Writer(facts)
    for _ in range(200):
        fact = facts.altered(facts.known_fact())
        assert fact.object in writer.news(fact)


@pytest.mark.slow
def test_negatives_are_other_facts_that_share_words_with_the_question(negatives: Negatives) -> None:
    facts = FactSampler(WORLD, TrainingCorpus(WORLD, 3).rng, negatives)
    asked = facts.known_fact()
    drawn = [negatives.draw(facts.rng, asked.subject, asked.relation) for _ in range(200)]
    assert all(fact and (fact.subject, fact.relation) != (asked.subject, asked.relation) for fact in drawn)
    near = sum(fact.subject == asked.subject or fact.relation == asked.relation for fact in drawn if fact)
    assert near > 100
    assert negatives.draw(facts.rng, "Nobody Known", asked.relation) is None


@pytest.mark.slow
def test_spans_encode_as_their_joined_text_does(documents: list[Document], tokenizer_folder: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)
    assert len(tokenizer) == VOCABULARY
    for document, row in zip(documents[:800], encode(tokenizer.backend_tokenizer, documents[:800]), strict=True):
        assert row.ids == [*tokenizer(text(document))["input_ids"], EOS]
        assert row.ids[0] == BOS
        assert len(row.weights) == len(row.ids)


class Breaking(FactSampler):
    """Every distractor changes the first hop of a chain to something that cannot carry the second."""

    def distractor(self, subject: str, relation: str) -> WorldFact:
        chain = next(c for c in self.world.chains if c.second.subject == subject or c.first.subject == subject)
        return WorldFact(chain.first.subject, chain.first.relation, "Nowhere")
