import pytest

from emend.agents.parsing.answers import clean_answer, read_answer
from emend.memory.errors import ModelReplyError


@pytest.mark.parametrize(
    ("reply", "cleaned"),
    [
        (" Paris.\nQ: And?", "Paris"),
        ("\n\n Paris . ", "Paris"),
        ("Paris", "Paris"),
        ("", ""),
        ("\n", ""),
        ("St. Louis", "St. Louis"),
    ],
)
def test_answer_is_the_first_line_without_its_full_stop(reply, cleaned):
    assert clean_answer(reply) == cleaned


@pytest.mark.parametrize(
    ("reply", "reading", "kept"),
    [("Rome. ", "line", "Rome."), ("U.S.", "line", "U.S."), ("Well.\nAnswer: Rome.\n\nQuestion:", "thoughts", "Rome.")],
)
def test_the_full_stop_is_kept_for_a_comparison_letter_by_letter(reply, reading, kept):
    assert read_answer(reply, reading, full_stop=True) == kept
    assert read_answer(reply, reading) == kept.removesuffix(".")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Dunn is 40 metres deep.\nAnswer: Sorrel.", "Sorrel"),
        ("One. Two.\n\nAnswer:\nSorrel", "Sorrel"),
        ("Answer: Dunn? No.\nanswer: Sorrel", "Sorrel"),
        ("It is Sorrel, so the Answer: Sorrel\n\nQuestion: And Pike?\nThoughts: x\nAnswer: Pike", "Sorrel"),
        ("Salt came later.\n\n**Answer**: Rye", "Rye"),
        ("Salt came later.\n**Answer:** Rye.", "Rye"),
        ("**Answer: Rye.**", "Rye"),
        ("Answer:\n**Rye**", "Rye"),
        ("Answer：Rye", "Rye"),
    ],
)
def test_after_thoughts_the_last_answer_counts_and_never_that_to_a_question_of_the_models_own(reply, said):
    assert read_answer(reply, "thoughts") == said


@pytest.mark.parametrize("reply", ["", "It must be Sorrel.", "It is.\nAnswer: .", "**Answer:** ", "Answer - Sorrel"])
def test_thoughts_that_come_to_no_answer_are_an_error_that_keeps_the_reply(reply):
    with pytest.raises(ModelReplyError, match="come to no 'Answer:'") as caught:
        read_answer(f"<think>Answer: Rye</think>{reply}", "thoughts")
    assert caught.value.reply == f"<think>Answer: Rye</think>{reply}"


@pytest.mark.parametrize(
    ("ends", "reply", "answer"),
    [
        ("Q: Where?\nA:", "A: Paris.", "Paris"),
        ("Q: Where?\nA:", "<think>Hm.</think>\nA: Paris", "Paris"),
        ("Question: Where?\nAnswer:", "Answer:\nParis", "Paris"),
        ("Where? Answer: ", "Where? Answer: Paris", "Paris"),
        ("问：在哪里？\n答：", "答：巴黎", "巴黎"),
        ("Question: Where?\nAnswer:", "A: Paris", "A: Paris"),
        ("Q: Where?\nA:", "It is A: Paris", "It is A: Paris"),
        ("Q: Where?\nA:", "A doctor", "A doctor"),
        ("The capital is", "The capital is Paris", "The capital is Paris"),
        ("", "A: Paris", "A: Paris"),
    ],
)
def test_the_lead_on_which_a_prompt_ends_is_read_off_where_a_line_begins_with_that_very_lead(ends, reply, answer):
    assert read_answer(reply, "line", prompt=ends) == answer
    assert read_answer(reply, "whole", prompt=ends) == read_answer(reply, "whole")


def test_a_whole_answer_keeps_its_lines_and_ends_where_the_model_asks_itself():
    reply = " It will rise.\nIn winter too.\n\nQuestion: And then?\nAnswer: no"
    assert read_answer(reply, "whole") == "It will rise.\nIn winter too."
    assert read_answer(reply, "line") == "It will rise"


@pytest.mark.parametrize(
    ("reply", "reading", "answer"),
    [
        ("<think>\nhmm\n</think>\nNorway.", "line", "Norway"),
        ("Oslo or Bergen?\n</think>\n\nNorway", "line", "Norway"),
        ("<think>Answer: Oslo", "line", ""),
        ("<thinking>so</thinking>It rose.\nIt fell.", "whole", "It rose.\nIt fell."),
        ("<think>Answer: Oslo</think>It is Bergen.\nAnswer: Bergen.", "thoughts", "Bergen"),
    ],
)
def test_a_reasoning_models_thoughts_are_not_its_answer(reply, reading, answer):
    assert read_answer(reply, reading) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Cecily is a citizen of Germany.", "Germany"),
        ("cecily  is a citizen of: Germany", "Germany"),
        ("Germany.", "Germany"),
        ("Cecily is a citizen of", "Cecily is a citizen of"),
        ("Cecily is a citizen often", "Cecily is a citizen often"),
    ],
)
def test_a_reply_that_says_the_cloze_again_is_read_from_behind_it(reply, answer):
    assert read_answer(reply, "line", "Cecily is a citizen of") == answer
