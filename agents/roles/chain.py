"""The reasoning role: a chain of thought under the new facts, then the answer.

Two forms. `thoughts` has the lines `Question:`, `Thoughts:` and `Answer:` of MQuAKE's and ReCoE's chains, with our own
demonstrations; `steps` has MeLLo's lines without its retrieval, generated one at a time, for models too small to follow
a format.
"""

from pathlib import Path
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.parsing.answers import NEXT_QUESTION, thoughts_and_answer
from emend.agents.roles.completion import continue_text
from emend.agents.roles.decompose import FINAL, LINES_END, opening, take_step
from emend.memory.edit import prompt_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

ANSWER = "Answer:"
THOUGHT_TOKENS = 256
STEP_BY_STEP = "Think step by step."
LEAD = "Question: {question}\nThoughts:"
DEMONSTRATIONS = Path(__file__).with_name("thoughts_demonstrations.txt").read_text(encoding="utf-8")


class Thought(NamedTuple):
    """A chain of thought up to its answer, the answer if the model has given it, and the cost.

    `cut_tokens` counts the tokens of the prompt that did not fit the window when the answer was given.
    """

    text: str
    final: str | None
    usage: Usage
    cut_tokens: int = 0


def think_aloud(model: BaseChatModel, prompt: str) -> Thought:
    """The model's chain of thought with its answer.

    Raises:
        ModelReplyError: the reply has no answer.
    """
    reply = continue_text(model, prompt, [NEXT_QUESTION], THOUGHT_TOKENS)
    thoughts, answer = thoughts_and_answer(reply.text)
    if not answer:
        raise ModelReplyError(f"the thoughts come to no '{ANSWER}': {reply.text!r}.", reply.text)
    return Thought(f"{prompt} {thoughts}\n{ANSWER}", answer, reply.usage, reply.cut_tokens)


def think_in_steps(model: BaseChatModel, facts: str, question: str, cloze: bool, hops: int) -> Thought:
    """A chain of `hops` steps, line by line, up to the label of the final answer.

    Raises:
        ModelReplyError: a line is empty.
    """
    text, usage = f"{facts}{STEP_BY_STEP}\n{opening(question)}", Usage()
    for _ in range(hops):
        step = take_step(model, text, question if cloze else "")
        text, usage = step.text, usage.plus(step.usage)
    return Thought(text + FINAL, None, usage)


def chain_prompt_id(form: str, demonstrations: str) -> str:
    """Eight hex digits that change with the prompts of the form."""
    ends = (LINES_END,) if form == "steps" else ()
    return prompt_id(form, demonstrations, LEAD, STEP_BY_STEP, *ends)
