"""A question in steps: what stands in for a model is read like a model."""

import pytest

from emend.agents.roles.decompose import (
    DEMONSTRATIONS,
    Round,
    opening,
    read_round,
    sample_round,
)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_sampled_generation_is_read_as_subquestions_up_to_the_number_and_then_as_the_final_answer(hops):
    transcript, rounds = opening("Who rules Veldania?", DEMONSTRATIONS), list[Round]()
    while not rounds or rounds[-1].final is None:
        rounds.append(read_round(sample_round(transcript, "a word", hops), checking=bool(rounds)))
        transcript += f"{rounds[-1].text}\nRetrieved fact: None.\n"
    assert [each.subquestion for each in rounds] == ["a word?"] * hops + [""]
    assert (rounds[-1].final, rounds[0].tentative) == ("a word", "a word")


def test_a_prompt_that_asks_for_no_steps_gets_no_sampled_generation():
    assert sample_round("The capital of Veldania is", "a word", 2) == ""


@pytest.mark.parametrize("label", ["Final answer:", "**Final Answer:**", "FINAL ANSWER:"])
def test_a_label_is_read_in_any_case(label):
    assert read_round(f"{label} 1912").final == "1912"
    step = read_round("Subquestion: When?\nGenerated Answer: In 1912.")
    assert (step.subquestion, step.tentative) == ("When?", "In 1912.")
