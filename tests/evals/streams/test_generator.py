"""Generated streams."""

from collections import Counter

import pytest

from emend.evals.streams.generator import generate_stream
from emend.evals.streams.gold import GoldState
from emend.evals.streams.sentences.wordings import read_question
from emend.evals.streams.stream_config import StreamOptions
from emend.evals.streams.turn import ABSTAINING, StreamQuestion, Turn
from emend.memory.errors import BadData
from tests.evals.construction.sources.tables import write_table

EVERY_KIND = {"current", "historic", "deleted", "cascade", "absence", "abstention", "multi_hop", "set"}


def generated(**options: object) -> tuple[list[Turn], list[StreamQuestion]]:
    items = list(generate_stream(StreamOptions.model_validate(options)))
    return [x for x in items if isinstance(x, Turn)], [x for x in items if isinstance(x, StreamQuestion)]


def test_a_stream_has_the_shares_that_were_asked_for_and_questions_of_every_kind():
    turns, questions = generated(turns=1000)
    kinds = Counter(turn.kind for turn in turns)
    assert len(turns) == 1000
    assert (kinds["correction"], kinds["deletion"], kinds["chatter"]) == (300, 100, 100)
    assert {question.kind for question in questions} == EVERY_KIND
    assert {1, 2, 3} <= {question.hops for question in questions}
    assert max(Counter(question.kind for question in questions).values()) < 2 * len(questions) / len(EVERY_KIND)


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", ["easy", "normal", "hard"])
@pytest.mark.parametrize("users", [1, 3])
def test_gold_is_what_the_texts_say_and_follows_from_the_evidence_alone(difficulty: str, users: int):
    turns, questions = generated(turns=150, difficulty=difficulty, users=users, seed=users)
    for question in questions:
        target = read_question(question.text)
        assert target is not None
        for seen in (turns[: question.place], [turn for turn in turns if turn.id in question.evidence]):
            state = GoldState(read_texts=True)
            for turn in seen:
                state.apply(turn)
            assert state.answer(question.user, target) == question.gold, question.text


def test_no_wrong_answer_is_right_and_abstaining_kinds_have_no_gold():
    _, questions = generated(turns=400, users=2)
    for question in questions:
        assert not {wrong.value for wrong in question.wrong} & {*question.gold}
        assert bool(question.gold) == (question.kind not in ABSTAINING)
    reasons = Counter(wrong.why for question in questions for wrong in question.wrong)
    assert min(reasons[why] for why in ("stale", "deleted", "other_user", "other")) > 5


def test_the_seed_decides_the_stream():
    first, again, other = (generated(turns=60, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_difficulty_decides_wordings_and_what_chatter_speaks_of():
    easy, hard = (generated(turns=200, difficulty=each)[0] for each in ("easy", "hard"))
    openings = ("The ", "Update: ", "News: ", "Since ", "Correction: ", "Please ", "Rule: ")
    assert all(turn.text.startswith(openings) for turn in easy if turn.kind != "chatter")
    assert any("'s " in turn.text for turn in hard if turn.kind == "fact")
    assert any(turn.kind == "chatter" and turn.text.startswith("What if") for turn in hard)


def test_facts_of_a_table_are_told(tmp_path):
    turns, questions = generated(turns=40, facts=str(write_table(tmp_path)))
    claims = {claim.relation for turn in turns for claim in turn.claims}
    assert claims <= {"mayor", "employer", "country"} and len(claims) > 1
    assert questions


def test_a_table_whose_relations_cannot_be_worded_is_refused(tmp_path):
    table = tmp_path / "facts.csv"
    table.write_text("subject,relation,object\nAna,{} was born in,Brask\nBo,{} was born in,Halden\n")
    with pytest.raises(BadData, match=r"facts\.csv"):
        generated(turns=10, facts=str(table))
