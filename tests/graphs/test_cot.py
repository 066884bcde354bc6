"""Chain of thought: thoughts under the facts, then the answer, in either form."""

from typing import Any

import pytest

from emend.agents.roles.chain import DEMONSTRATIONS
from emend.graphs.cot import CotContext, build
from emend.graphs.decomposition.state import MelloContext
from emend.graphs.execution import run_graph
from emend.graphs.mello import build as build_mello
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.steps import steps_of
from tests.fakes import ScriptedScoringModel

APP, MELLO = build(), build_mello()
FACT = "The capital of Veldania is Ostrim."


class Fixed:
    """Finds the texts that it is told to."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def search(self, query: str, k: int) -> list[Hit]:
        return [Hit(entry=Entry(id=text, edit_id=text, text=text), score=1.0) for text in self.texts[:k]]


def think(*said: str, found=(FACT,), targets=None, probe: dict[str, Any] | None = None, **more: Any):
    told = iter(said)
    model = ScriptedScoringModel(reply=lambda prompt: next(told), log_prob=lambda prompt, target: -1.0)
    asked = Probe(**{"kind": "x", "prompt": "The capital of Veldania is", "gold": ("Ostrim",)} | (probe or {}))
    state: dict[str, Any] = {"probe": asked} | ({"targets": targets} if targets else {})
    final, steps = run_graph(APP, state, CotContext(model, Fixed(*found), **more))
    return final, [step.node for step in steps], model


def test_thoughts_and_answer_are_one_reply_unless_there_is_no_fact():
    final, nodes, model = think("It is a fact.\nAnswer: Ostrim.\n\nQuestion: What")
    assert nodes == ["retrieve", "think", "respond"] and final["reply"] == "Ostrim"
    lead = f"{DEMONSTRATIONS.strip()}\n\nNew Fact: {FACT}\nQuestion: The capital of Veldania is\nThoughts:"
    assert model.calls == [lead] and final["prompt"] == f"{lead} It is a fact.\nAnswer:"
    assert final["usage"].calls == 1
    final, nodes, model = think("x", found=())
    assert nodes == ["retrieve", "compose", "respond"] and model.calls == ["The capital of Veldania is"]
    assert final["prompt"] == "The capital of Veldania is"


@pytest.mark.parametrize("said", ["**Answer:** Ostrim", "**Answer**: Ostrim.", "answer：Ostrim"])
def test_the_answer_is_read_as_under_every_other_editor(said):
    final, _, _ = think(f"It is a fact.\n{said}")
    assert final["reply"] == "Ostrim" and final["prompt"].endswith("Thoughts: It is a fact.\nAnswer:")


@pytest.mark.parametrize("second", ["### Answer\nOstrim", "**Answer:** Ostrim", "Final answer: Ostrim"])
def test_a_label_that_a_chat_model_writes_again_is_no_part_of_its_answer(second):
    final, _, _ = think("It is a fact.", second)
    assert final["reply"] == "Ostrim" and final["fallback"] == "asked again"


@pytest.mark.parametrize("form", ["thoughts", "published"])
def test_facts_that_did_not_fit_the_window_are_counted(form):
    """Under the thoughts, whose reply has the answer in it, as under a prompt of its own."""

    class Small(ScriptedScoringModel):
        def _generate(self, *asked, **more):
            result = super()._generate(*asked, **more)
            result.generations[0].message.response_metadata["cut_tokens"] = 7
            return result

    probe = Probe(kind="x", prompt="The capital of Veldania is", gold=("Ostrim",))
    if form == "thoughts":
        model = Small(reply=lambda prompt: "It is.\nAnswer: Ostrim.", log_prob=lambda prompt, target: -1.0)
        final, _ = run_graph(APP, {"probe": probe}, CotContext(model, Fixed(FACT)))
    else:
        verdict = "Retrieved fact does not contradict to generated answer, so the intermediate answer is: Old."
        said = ["Subquestion: What is it?\nGenerated answer: Old.", f"{verdict}\nFinal answer: Ostrim"]
        model = Small(reply=lambda prompt: said.pop(0), log_prob=lambda prompt, target: -1.0)
        final, _ = run_graph(MELLO, {"probe": probe}, MelloContext(model, Fixed(), form="text"))
    assert (final["reply"], final["cut_tokens"]) == ("Ostrim", 7)


def test_targets_are_scored_behind_the_thoughts():
    final, _, _ = think("It is a fact.\nAnswer: Ostrim.", targets=["Ostrim", "Rome"])
    assert final["log_probs"] == [-1.0, -1.0] and final["prompt"].endswith("It is a fact.\nAnswer:")
    assert "reply" not in final and final["usage"].calls == 2
    probe = {"prompt": "Question: Q?\nThoughts:", "style": "raw", "reading": "thoughts"}
    final, _, _ = think("Yes.\nAnswer: Ostrim", probe=probe, targets=["Ostrim"])
    assert final["prompt"] == f"New Fact: {FACT}\nQuestion: Q?\nThoughts: Yes.\nAnswer:" and "reply" not in final


@pytest.mark.parametrize(
    ("reply", "thoughts"), [("It is a fact.", " It is a fact."), (" It is.\nAnswer:", " It is."), ("Answer: \n", " ")]
)
def test_thoughts_without_an_answer_are_continued_from_its_label(reply, thoughts):
    final, _, model = think(reply, " Ostrim.\nNew Fact: more")
    assert final["reply"] == "Ostrim" and final["fallback"] == "asked again" and final["usage"].calls == 2
    assert model.calls[1] == final["prompt"] and final["prompt"].endswith(f"\nThoughts:{thoughts}\nAnswer:")


def test_an_example_that_the_model_makes_up_is_no_thought():
    final, _, model = think("It is a fact.\n\nNew Fact: Ann is a citizen of Chad.\nQuestion: Who?", " Ostrim")
    assert final["reply"] == "Ostrim" and model.calls[1].endswith("\nThoughts: It is a fact.\nAnswer:")


def test_without_an_answer_again_the_last_sentence_is_it_and_without_thoughts_it_is_an_error():
    final, _, _ = think("It is a fact. So the answer is Ostrim.", " ")
    assert final["reply"] == "Ostrim." and final["fallback"] == "last sentence"
    with pytest.raises(ModelReplyError) as caught:
        think("", " ")
    assert caught.value.reply == "" and steps_of(caught.value)[-1].node == "think"


def test_a_probe_that_asks_for_thoughts_keeps_its_own_form_and_examples():
    probe = {"prompt": "Question: Q?\nThoughts:", "style": "raw", "examples": "Question: E?\nAnswer: F"}
    final, _, model = think("Yes.\nAnswer: Ostrim", probe=probe | {"reading": "thoughts"})
    assert model.calls == [f"Question: E?\nAnswer: F\n\nNew Fact: {FACT}\nQuestion: Q?\nThoughts:"]
    assert final["reply"] == "Yes.\nAnswer: Ostrim" and final["reading"] == "thoughts"


def test_in_steps_each_line_is_begun_for_the_model():
    final, _, model = think("Ostrim.", "Ostrim", form="steps")
    start = f"New Fact: {FACT}\nThink step by step.\nQuestion: The capital of Veldania is\n"
    assert model.calls[0] == (
        f"{start}Subquestion: The capital of Veldania is\nGenerated answer: The capital of Veldania is"
    )
    assert model.calls[1].endswith("The capital of Veldania is Ostrim.\nFinal answer:") and final["reply"] == "Ostrim"


def test_in_steps_a_question_takes_the_steps_that_its_words_need_and_the_given_ones_only_if_the_data_set_may_say():
    probe = {"prompt": "Who rules the country of Ann?", "style": "question"}
    said = ["Which is Ann's country?", "Chad.", "Who rules Chad?", "Bo.", "Bo"]
    final, _, model = think(*said, form="steps", probe=probe)
    assert final["prompt"].count("Subquestion:") == 2 == final["steps"] and final["end"] == "words"
    assert final["usage"].calls == 5 == len(model.calls)
    assert think(*said[:2], "Bo", form="steps", steps=1, probe=probe)[0]["end"] == "limit"
    tagged = probe | {"tags": {"hops": 1}}
    assert think(*said, form="steps", probe=tagged)[0]["steps"] == 2
    assert think(*said[:2], "Bo", form="steps", probe=tagged, hops_from="data")[0]["end"] == "given"
    with pytest.raises(ModelReplyError):
        think("", form="steps", probe=probe)


def test_in_steps_a_probe_with_choices_is_put_once_more_behind_the_thoughts():
    probe = {"prompt": "Is it Ostrim?", "style": "question", "gold": ("Yes",), "choices": ("Yes", "No")}
    final, _, model = think("Ostrim?", "Ostrim.", "Yes", form="steps", probe=probe)
    lead = f"New Fact: {FACT}\nThink step by step.\nQuestion: Is it Ostrim?\nSubquestion: Ostrim?\n"
    assert model.calls[-1] == f"{lead}Generated answer: Ostrim.\n\nNew Fact: {FACT}\nQ: Is it Ostrim?\nA:"
    assert final["reply"] == "Yes" and final["reading"] == "line"
    assert think("A fact.\nAnswer: Yes", probe=probe)[0]["prompt"].endswith("Answer:")


def test_in_steps_the_demonstrations_of_steps_stand_before_the_facts():
    probe = {"prompt": "Who rules Chad?", "style": "question"}
    _, _, model = think("Who rules Chad?", "Bo.", "Bo", form="steps", probe=probe, step_demonstrations="Question: E?")
    assert all(call.startswith(f"Question: E?\n\nNew Fact: {FACT}\nThink step by step.\n") for call in model.calls)
