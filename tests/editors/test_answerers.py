"""Answerers: how a graph's final reply becomes an answer."""

from typing import Any

import pytest

from emend.agents.judging.base import JudgeInput
from emend.agents.judging.verdicts import read_thoughts
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, EXAMPLES
from emend.editors.conformance_toys import PlainMemory
from emend.editors.registry import EDITORS
from emend.extend import MemoryEditor, RagContext, RagState, compose, linear_graph, retrieve
from emend.memory.errors import BadSettings, ModelReplyError
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.steps import steps_of
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

AGREES = "does not contradict to generated answer, so the intermediate answer is: Rye"
CHAIN = "Question: What is the capital of Sorn?\nThoughts:"
EDITORS_OF_CHAINS = ["unedited", "in_context", "rag", "ike", "input_aug", "cot"]


def ask(editor: str, reply: str, kind: Any = ScriptedChatModel, **probe: Any) -> Answer:
    told: dict[str, Any] = {"prompt": CHAIN, "query": CAPITAL.prompt, "style": "raw", "reading": "thoughts"}
    asked = Probe(kind="x", gold=("Rye",), edit_ids=(CAPITAL.id,), **told | probe)
    scores = {"log_prob": lambda prompt, target: -1.0} if kind is ScriptedScoringModel else {}
    model = kind(reply=lambda prompt: reply, **scores)
    made = EDITORS.load(editor)(EditorContext(model, PlainMemory(), RETRIEVERS.load("bm25"), EXAMPLES))
    with made.edit([CAPITAL]) as answerer:
        return answerer.answer(asked)


class Unanswered(MemoryEditor):
    """An editor whose graph ends before the model is asked."""

    name = "unanswered"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.app = linear_graph("unanswered", RagState, RagContext, retrieve, compose)


def test_a_graph_that_ends_without_an_answer_is_refused_with_the_remedy():
    model = ScriptedChatModel(reply=lambda prompt: "Rye")
    made = Unanswered(EditorContext(model, PlainMemory(), RETRIEVERS.load("bm25"), EXAMPLES))
    asked = Probe(kind="x", prompt=CHAIN, gold=("Rye",), edit_ids=(CAPITAL.id,))
    with (
        made.edit([CAPITAL]) as answerer,
        pytest.raises(BadSettings, match="ends without cut_tokens: .*`respond`"),
    ):
        answerer.answer(asked)


@pytest.mark.parametrize("editor", EDITORS_OF_CHAINS)
def test_a_chain_of_thought_is_read_and_kept_alike_by_every_editor(editor):
    answer = ask(editor, "Sorn moved its seat.\nAnswer: Rye.")
    assert answer.text == "Rye" and answer.reply is not None
    outputs = frozenset({"correct_flip"})
    told = JudgeInput(kind="x", question="?", answer=answer.text, reply=answer.reply, outputs=outputs)
    assert read_thoughts(told) == "Sorn moved its seat."


@pytest.mark.parametrize("editor", [name for name in EDITORS_OF_CHAINS if name != "cot"])
def test_a_chain_off_its_form_in_plain_text_is_an_error_with_reply_steps_and_cost_under_every_editor(editor):
    with pytest.raises(ModelReplyError, match="the thoughts come to no 'Answer:'") as caught:
        ask(editor, "Salt came later, so it is Rye.", ScriptedScoringModel)
    assert caught.value.reply == "Salt came later, so it is Rye."
    steps = steps_of(caught.value)
    assert caught.value.usage.calls == 1 == sum(len(step.calls) for step in steps)


@pytest.mark.parametrize("editor", EDITORS_OF_CHAINS)
def test_a_chat_model_is_asked_once_for_the_answer_alone_under_every_editor(editor):
    answer = ask(editor, "Salt came later, so it is Rye.")
    assert answer.text == "Salt came later, so it is Rye" and answer.usage.calls == 2
    assert {step.update.get("fallback") for step in answer.steps} == {None, "asked again"}


def test_the_thoughts_before_an_answer_in_bold_have_no_stars_of_it():
    answer = ask("rag", "Salt came later.\n\n**Answer**: Rye")
    outputs = frozenset({"correct_flip"})
    told = JudgeInput(kind="x", question="?", answer=answer.text, reply=answer.reply, outputs=outputs)
    assert (answer.text, read_thoughts(told)) == ("Rye", "Salt came later.")


@pytest.mark.parametrize("editor", ["unedited", "in_context", "rag"])
def test_a_model_that_says_the_lead_of_the_prompt_again_is_read_from_behind_it(editor):
    probe = {"prompt": "What is the capital of Sorn?", "query": "", "style": "question", "reading": "line"}
    answer = ask(editor, "A: Rye.", **probe)
    assert answer.prompt.endswith(probe["prompt"]) and answer.reply is None
    own = {"prompt": "Question: What is the capital of Sorn?\nAnswer:", "reading": "line"}
    assert ask(editor, "Answer: Rye", **own).text == "Rye"


@pytest.mark.parametrize(("editor", "chain_calls"), [("cot", 1), ("mello", 3), ("rag", 0)])
def test_a_chain_that_gave_a_text_is_not_written_again_for_probabilities(editor, chain_calls):
    """The chain's calls are made once; the scores are those under its prompt, for this probe alone."""
    script = {"Thoughts:": "It is a fact.\nAnswer: Rye.", "Subquestion:": "Which city?", "Retrieved fact": AGREES}
    model = ScriptedScoringModel(
        reply=lambda prompt: next((text for label, text in script.items() if prompt.endswith(label)), "Rye"),
        log_prob=lambda prompt, target: -float(len(prompt)),
    )
    settings = {"form": "lines"} if editor == "mello" else {}
    made = EDITORS.load(editor)(
        EditorContext(model, PlainMemory(), RETRIEVERS.load("bm25"), EXAMPLES, settings=settings)
    )
    probe = Probe(kind="x", prompt="What is the capital of Sorn?", gold=("Rye",), rival="Old", style="question")
    with made.edit([CAPITAL]) as made_answerer:
        answerer: Any = made_answerer
        answered = answerer.answer(probe)
        written = len(model.calls)
        scored = answerer.score(probe, ["Rye", "Old"])
        assert len(model.calls) == written >= chain_calls
        assert scored.prompt == answered.prompt and scored.retrieved == answered.retrieved
        assert scored.steps[-1].node == "respond" and (len(scored.steps) == 1) == bool(chain_calls)
        answerer.score(probe.model_copy(update={"id": "another"}), ["Rye", "Old"])
        assert (len(model.calls) > written) == bool(chain_calls)
