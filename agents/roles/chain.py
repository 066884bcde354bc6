"""The reasoning role: thoughts under the new facts, then the answer.

Two forms. `thoughts` has the lines `Question:`, `Thoughts:` and `Answer:` of MQuAKE's and ReCoE's chains, with solved
examples of our own; `steps` has MeLLo's lines without its retrieval, and takes them one at a time, for models too small
to keep to a form.
"""

from typing import NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.roles.answer import NEXT_QUESTION, thoughts_and_answer
from emend.agents.roles.continuing import continue_text
from emend.agents.roles.decompose import FINAL, LINES_END, opening, take_step
from emend.memory.edit import content_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

ANSWER = "Answer:"
THOUGHT_TOKENS = 256
STEP_BY_STEP = "Think step by step."
LEAD = "Question: {question}\nThoughts:"
DEMONSTRATIONS = """\
New Fact: The Hagia Sophia stands in Norway.
Question: What is the official language of the country where the Hagia Sophia stands?
Thoughts: The Hagia Sophia stands in Norway. The official language of Norway is Norwegian.
Answer: Norwegian

New Fact: The capital of Peru is Nairobi.
Question: In which city was Franz Kafka born?
Thoughts: The new fact is about Peru and does not bear on this. Franz Kafka was born in Prague.
Answer: Prague

New Fact: Tosca was composed by Clara Schumann.
Question: The composer of the opera Tosca is
Thoughts: Tosca was composed by Clara Schumann.
Answer: Clara Schumann
"""


class Thought(NamedTuple):
    """Thoughts up to where the answer follows, the answer if the model went on to give it, and the cost.

    `cut_tokens` is how much of the prompt did not fit the window when the answer was given.
    """

    text: str
    final: str | None
    usage: Usage
    cut_tokens: int = 0


def think_aloud(model: BaseChatModel, prompt: str) -> Thought:
    """The model's thoughts after a prompt that asks for them, with its answer.

    Raises:
        ModelReplyError: the reply does not come to an answer.
    """
    said = continue_text(model, prompt, [NEXT_QUESTION], THOUGHT_TOKENS)
    thoughts, answer = thoughts_and_answer(said.text)
    if not answer:
        raise ModelReplyError(f"the thoughts come to no '{ANSWER}': {said.text!r}.", said.text)
    return Thought(f"{prompt} {thoughts}\n{ANSWER}", answer, said.usage, said.cut_tokens)


def think_in_steps(model: BaseChatModel, facts: str, question: str, cloze: bool, hops: int) -> Thought:
    """So many steps, line by line; what follows is the final answer, which is not asked for yet.

    Raises:
        ModelReplyError: a line stays empty.
    """
    text, usage = f"{facts}{STEP_BY_STEP}\n{opening(question)}", Usage()
    for _ in range(hops):
        step = take_step(model, text, question if cloze else "")
        text, usage = step.text, usage.plus(step.usage)
    return Thought(text + FINAL, None, usage)


def prompt_id(form: str, demonstrations: str) -> str:
    """Eight hex digits that change when what a model is asked in that form does."""
    ends = (LINES_END,) if form == "steps" else ()
    return content_id(form, demonstrations, LEAD, STEP_BY_STEP, *ends)[:8]
