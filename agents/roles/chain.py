"""The reasoning role: a chain of thought under the new facts, then the answer.

Two forms. `thoughts` has the lines `Question:`, `Thoughts:` and `Answer:` of MQuAKE's and ReCoE's chains, with our own
demonstrations; `steps` has MeLLo's lines without its retrieval, generated one at a time, for models too small to follow
a format.
"""

import re
from pathlib import Path
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.parsing.answers import NEXT_QUESTION, clean_answer, thoughts_and_answer
from emend.agents.roles.completion import LINE_TOKENS, Completion, continue_text
from emend.agents.roles.conversation import Prompt, lead_of
from emend.agents.roles.decompose import LINES_END, opening, take_step
from emend.agents.scoring import is_chat_model
from emend.memory.edit import prompt_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

ANSWER = "Answer:"
THOUGHT_TOKENS = 256
STEP_BY_STEP = "Think step by step."
LEAD = "Question: {question}\nThoughts:"
NEXT_FACT = "\n\nNew Fact:"
"""A model that continues text may go on with an example of its own after the blank line."""
MISSING = f"Your reply has no line '{ANSWER}'. Reply with that line alone: '{ANSWER}' and the answer, in a few words."
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ANSWER_IS = re.compile(r"^.*\banswer is:?\s+", re.IGNORECASE)
DEMONSTRATIONS = Path(__file__).with_name("thoughts_demonstrations.txt").read_text(encoding="utf-8")


class Thought(NamedTuple):
    """A chain of thought as the prompt of its answer, the answer if the model has given it, and the cost.

    `cut_tokens` counts the tokens of the prompt that did not fit the window when the answer was given; `fallback` says
    how the answer was got from a chain without a line for it.
    """

    prompt: Prompt
    thoughts: str
    final: str | None
    usage: Usage
    cut_tokens: int = 0
    fallback: str = ""


def think_aloud(model: BaseChatModel, prompt: Prompt) -> Thought:
    """The model's chain of thought with its answer; a model that gives none is asked once for it alone.

    Raises:
        ModelReplyError: the reply has no answer.
    """
    ends = [NEXT_QUESTION] if is_chat_model(model) else [NEXT_QUESTION, NEXT_FACT]
    return conclude(model, prompt, continue_text(model, prompt, ends, THOUGHT_TOKENS))


def conclude(model: BaseChatModel, prompt: Prompt, reply: Completion) -> Thought:
    """The chain of thought that a reply is, with its answer; a model that gives none is asked once for it alone.

    Raises:
        ModelReplyError: the reply has no answer.
    """
    thoughts, answer = thoughts_and_answer(reply.text)
    chain = prompt.begun(f" {thoughts}\n{ANSWER}", f" {thoughts}\n{ANSWER}", between="")
    if answer:
        return Thought(chain, thoughts, answer, reply.usage, reply.cut_tokens)
    error = ModelReplyError(f"the thoughts come to no '{ANSWER}': {reply.text!r}.", reply.text, reply.usage)
    return _ask_again(model, prompt, chain, thoughts, error)


_HEADING = re.compile(r"\A\W*(?:final )?answer\W*\n", re.IGNORECASE)


def _ask_again(model: BaseChatModel, prompt: Prompt, chain: Prompt, thoughts: str, error: ModelReplyError) -> Thought:
    """The answer to the thoughts, asked for by itself; without one, the last sentence of the thoughts.

    A model that continues text gets the thoughts and the label of the answer (two-stage prompting, Kojima et al. 2022,
    section 3); a chat model is told what its reply lacks.
    """
    again = chain
    if is_chat_model(model):
        turns = prompt.begun("", f" {thoughts}", between="") if lead_of(prompt.turns) else prompt.begun("", thoughts)
        again = turns.asked("", MISSING).begun("", ANSWER)
    try:
        reply = continue_text(model, again, ["\n"], LINE_TOKENS)
        # A chat model may write the label again, as a heading or before its answer.
        answer = thoughts_and_answer(reply.text)[1] or clean_answer(_HEADING.sub("", reply.text))
        usage = error.usage.plus(reply.usage)
    except ModelReplyError as second:
        answer, usage = "", error.usage.plus(second.usage)
    if answer:
        return Thought(chain, thoughts, answer, usage, reply.cut_tokens, "asked again")
    last = last_sentence(thoughts)
    if not last:
        error.usage = usage
        raise error
    return Thought(chain, thoughts, last, usage, fallback="last sentence")


def last_sentence(text: str) -> str:
    """The last sentence of a text, or what it says the answer is.

    >>> last_sentence("Ann is from Chad. Its capital is N'Djamena.")
    "Its capital is N'Djamena."
    >>> last_sentence("Ann is from Chad. So the answer is N'Djamena.")
    "N'Djamena."
    """
    return _ANSWER_IS.sub("", _SENTENCE.split(text.strip())[-1].strip())


def think_in_steps(model: BaseChatModel, facts: str, question: str, cloze: bool, hops: int) -> Thought:
    """A chain of `hops` steps, line by line, up to the label of the final answer.

    Raises:
        ModelReplyError: a line is empty.
    """
    text = f"{facts}{STEP_BY_STEP}\n{opening(question)}"
    prompt, usage = Prompt().asked(text, text.strip()), Usage()
    for _ in range(hops):
        step = take_step(model, prompt, question if cloze else "")
        prompt, usage = step.prompt, usage.plus(step.usage)
    return Thought(prompt, "", None, usage)


def chain_prompt_id(form: str, demonstrations: str, chats: bool = False) -> str:
    """Eight hex digits that change with the prompts of the form, and with those of chat models if the model `chats`."""
    ends = ((LINES_END,) if form == "steps" else ()) + ((MISSING,) if chats else (NEXT_FACT, ANSWER))
    return prompt_id(form, demonstrations, LEAD, STEP_BY_STEP, *ends)
