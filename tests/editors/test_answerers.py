"""Answerers: how a graph's final reply becomes an answer."""

from typing import Any

import pytest

from emend.agents.judging.base import JudgeInput
from emend.agents.judging.verdicts import thoughts_of
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, EXAMPLES
from emend.editors.conformance_toys import PlainMemory
from emend.editors.registry import EDITORS
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.steps import steps_of
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

CHAIN = "Question: What is the capital of Sorn?\nThoughts:"
EDITORS_OF_CHAINS = ["unedited", "in_context", "rag", "ike", "input_aug", "cot"]


def ask(editor: str, reply: str, model: Any = None, **probe: Any) -> Answer:
    told: dict[str, Any] = {"prompt": CHAIN, "query": CAPITAL.prompt, "style": "raw", "reading": "thoughts"}
    asked = Probe(kind="x", gold=("Rye",), edit_ids=(CAPITAL.id,), **told | probe)
    model = model or ScriptedChatModel(reply=lambda prompt: reply)
    made = EDITORS.load(editor)(EditorContext(model, PlainMemory(), RETRIEVERS.load("bm25"), EXAMPLES))
    with made.edit([CAPITAL]) as answerer:
        return answerer.answer(asked)


@pytest.mark.parametrize("editor", EDITORS_OF_CHAINS)
def test_a_chain_of_thought_is_read_and_kept_alike_by_every_editor(editor):
    answer = ask(editor, "Sorn moved its seat.\nAnswer: Rye.")
    assert answer.text == "Rye" and answer.reply is not None
    outputs = frozenset({"correct_flip"})
    told = JudgeInput(kind="x", question="?", answer=answer.text, reply=answer.reply, outputs=outputs)
    assert thoughts_of(told) == "Sorn moved its seat."


OFF_FORM = "Salt came later, so it is Rye."
ONE_CALL = [name for name in EDITORS_OF_CHAINS if name != "cot"]


@pytest.mark.parametrize("editor", ONE_CALL)
@pytest.mark.parametrize(
    ("end", "answer"),
    [("So it is Rye.", "So it is Rye"), ("So the answer is Rye.", "Rye"), ("**Answer:**", "It moved")],
)
def test_a_chat_models_chain_without_an_answer_ends_in_its_last_sentence_and_is_kept_whole(editor, end, answer):
    chain = f"Sorn has a new seat. It moved.\n{end}"
    answered = ask(editor, chain)
    assert answered.text == answer and answered.usage.calls == 1
    assert {step.update.get("fallback") for step in answered.steps} == {None, "last sentence"}
    assert answered.reply is not None and answered.reply.startswith(chain)


@pytest.mark.parametrize("editor", ONE_CALL)
def test_a_plain_models_chain_off_its_form_is_an_error_with_reply_steps_and_cost_under_every_editor(editor):
    plain = ScriptedScoringModel(reply=lambda prompt: OFF_FORM, log_prob=lambda prompt, target: -1.0)
    with pytest.raises(ModelReplyError, match="the thoughts come to no 'Answer:'") as caught:
        ask(editor, OFF_FORM, plain)
    assert caught.value.reply == OFF_FORM
    steps = steps_of(caught.value)
    assert caught.value.usage.calls == 1 == sum(len(step.calls) for step in steps)


@pytest.mark.parametrize("editor", ONE_CALL)
def test_a_chain_that_is_cut_off_has_no_last_sentence(editor):
    class CutOff(ScriptedChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            result = super()._generate(*args, **kwargs)
            result.generations[0].message.response_metadata["finish_reason"] = "length"
            return result

    with pytest.raises(ModelReplyError, match="the thoughts come to no 'Answer:'"):
        ask(editor, OFF_FORM, CutOff(reply=lambda prompt: OFF_FORM))


def test_cot_asks_a_chat_model_once_for_the_answer_alone():
    answer = ask("cot", OFF_FORM)
    assert answer.text == "Salt came later, so it is Rye" and answer.usage.calls == 2
    assert {step.update.get("fallback") for step in answer.steps} == {None, "asked again"}


def test_the_thoughts_before_an_answer_in_bold_have_no_stars_of_it():
    answer = ask("rag", "Salt came later.\n\n**Answer**: Rye")
    outputs = frozenset({"correct_flip"})
    told = JudgeInput(kind="x", question="?", answer=answer.text, reply=answer.reply, outputs=outputs)
    assert (answer.text, thoughts_of(told)) == ("Rye", "Salt came later.")


@pytest.mark.parametrize("editor", ["unedited", "in_context", "rag"])
def test_a_model_that_says_the_lead_of_the_prompt_again_is_read_from_behind_it(editor):
    probe = {"prompt": "What is the capital of Sorn?", "query": "", "style": "question", "reading": "line"}
    answer = ask(editor, "A: Rye.", **probe)
    assert answer.prompt.endswith(probe["prompt"]) and answer.reply is None
    own = {"prompt": "Question: What is the capital of Sorn?\nAnswer:", "reading": "line"}
    assert ask(editor, "Answer: Rye", **own).text == "Rye"
