"""Plans that are read off a question, and off the replies of models."""

import pytest

from emend.agents.roles.relation_chain import parse_nested, read_chain
from emend.memory.errors import ModelReplyError


@pytest.mark.parametrize(
    ("question", "entity", "relations"),
    [
        ("What is the capital of France?", "France", ("capital",)),
        ("The capital of France is", "France", ("capital",)),
        ("Who is the spouse of the author of Emma?", "Emma", ("author", "spouse")),
        (
            'Who is the spouse of the author of "The Eye of the Needle"?',
            '"The Eye of the Needle"',
            ("author", "spouse"),
        ),
        ("What is the country of citizenship of the author of Emma?", "Emma", ("author", "country of citizenship")),
        (
            "Who was the head of state of the country of origin of haggis?",
            "haggis",
            ("country of origin", "head of state"),
        ),
        ("What is the religion of the spouse of Albert of Saxony?", "Albert of Saxony", ("spouse", "religion")),
        ("What is the name of the chief executive officer of AT&T?", "AT&T", ("chief executive officer",)),
        ("What is the location of the headquarters of the maker of Clio?", "Clio", ("maker", "headquarters")),
    ],
)
def test_questions_of_nouns_in_a_chain_are_read(question: str, entity: str, relations: tuple[str, ...]):
    chain = parse_nested(question)
    assert chain is not None and (chain.entity, chain.relations) == (entity, relations) and chain.usage.calls == 0


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of the country where laddu was made?",
        "What is the capital of the country to which Lyon belongs?",
        "Where was the author of Emma born?",
        "What is the sport associated with the coach of Ajax?",
        "What is the genre of Emma's author?",
        "Who is the leader of the country of which Tom is a citizen?",
        "Who wrote Emma?",
        "What is the weather like?",
        "",
    ],
)
def test_questions_with_clauses_are_left_to_the_model(question: str):
    assert parse_nested(question) is None


@pytest.mark.parametrize("reply", ["Emma", "Emma\nRelations:", "\nRelations: author", "Emma\nRelations: ; -> ;"])
def test_a_reply_without_entity_or_relation_is_no_plan(reply: str):
    with pytest.raises(ModelReplyError, match="Relations:"):
        read_chain(reply)
