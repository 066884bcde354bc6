import pytest

from emend.agents.parsing.reply_marks import has_open_reasoning, has_reasoning, strip_marks


@pytest.mark.parametrize(
    "reply",
    [
        "<|channel|>analysis<|message|>They ask.<|end|><|start|>assistant<|channel|>final<|message|>Paris<|return|>",
        "analysisThey ask for it.assistantfinalParis",
        "[THINK]Lyon? no.[/THINK]Paris",
        "<thought>Lyon? no.</thought>\nParis",
        "<reasoning>Lyon? no.</reasoning>\nParis",
        "<seed:think>Lyon? no.</seed:think>\nParis",
        "Lyon? no.</think>Paris",
        "Paris<|im_end|>\n<|im_start|>user\nAnd Lyon?",
        "<|im_start|>assistant\nParis</s></s>",
        "Paris<|eot_id|>",
        "Paris<end_of_turn>",
        "Paris<|endoftext|>Q: And?",
        "<answer>Paris</answer>",
    ],
)
def test_marks_are_no_part_of_the_answer(reply):
    assert strip_marks(reply).strip() == "Paris"
    assert not has_open_reasoning(reply)


@pytest.mark.parametrize(
    "reply", ["<think>Paris", "[THINK]Paris", "<|channel|>analysis<|message|>Paris", "<thought>Paris"]
)
def test_reasoning_without_an_end_leaves_no_answer(reply):
    assert strip_marks(reply) == ""
    assert has_reasoning(reply) and has_open_reasoning(reply)
