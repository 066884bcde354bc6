"""The reasoning role: a chain of thought under the new facts, then the answer.

Two forms. `thoughts` has the lines `Question:`, `Thoughts:` and `Answer:` of MQuAKE's and ReCoE's
chains, with our own demonstrations; `steps` has MeLLo's lines without its retrieval, generated one
at a time, for models too small to follow a format. A chat model sees demonstrations of those too,
where its window has room: without any, SmolLM2-135M repeats the question as its only step.
"""

import re
from pathlib import Path
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.parsing.answers import NEXT_QUESTION, clean_answer, thoughts_and_answer
from emend.agents.roles.completion import LINE_TOKENS, Completion, continue_text
from emend.agents.roles.conversation import Prompt, lead_of
from emend.agents.roles.decompose import LINES_END, opening
from emend.agents.roles.line_steps import End, PastStep, StepLimit, take_step
from emend.agents.scoring import is_chat_model
from emend.memory.edit import prompt_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

ANSWER = "Answer:"
THOUGHT_TOKENS = 256
STEP_BY_STEP = "Think step by step."
LEAD = "Question: {question}\nThoughts:"
# A base model may continue with an invented example after the blank line.
NEXT_FACT = "\n\nNew Fact:"
MISSING = (
    f"Your reply has no line '{ANSWER}'. Reply with that line alone: '{ANSWER}' and the "
    "answer, in a few words."
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ANSWER_IS = re.compile(r"^.*\banswer is:?\s+", re.IGNORECASE)
DEMONSTRATIONS = Path(__file__).with_name("thoughts_demonstrations.txt").read_text(encoding="utf-8")
STEP_DEMONSTRATIONS = (
    Path(__file__).with_name("step_demonstrations.txt").read_text(encoding="utf-8")
)


class Thought(NamedTuple):
    """A chain of thought as prompt for its answer, the answer if the model gave it, and the cost.

    `cut_tokens` counts the prompt tokens truncated to fit the window when the answer was given;
    `fallback` says how the answer was obtained from a chain without an answer line.
    """

    prompt: Prompt
    thoughts: str
    final: str | None
    usage: Usage
    cut_tokens: int = 0
    fallback: str = ""


class SteppedThought(NamedTuple):
    """A chain of steps as prompt for its answer, the number of steps, what ended them, and the
    cost.
    """

    prompt: Prompt
    steps: int
    end: End
    usage: Usage


def think_aloud(model: BaseChatModel, prompt: Prompt) -> Thought:
    """Return the model's chain of thought and answer; if the answer is missing, ask once for it.

    Raises:
        ModelReplyError: the reply has no answer.
    """
    ends = [NEXT_QUESTION] if is_chat_model(model) else [NEXT_QUESTION, NEXT_FACT]
    return conclude(model, prompt, continue_text(model, prompt, ends, THOUGHT_TOKENS))


def conclude(model: BaseChatModel, prompt: Prompt, reply: Completion) -> Thought:
    """Parse a reply as a chain of thought and answer; if the answer is missing, ask once for it.

    Raises:
        ModelReplyError: the reply has no answer.
    """
    thoughts, answer = thoughts_and_answer(reply.text)
    chain = prompt.begun(f" {thoughts}\n{ANSWER}", f" {thoughts}\n{ANSWER}", between="")
    if answer:
        return Thought(chain, thoughts, answer, reply.usage, reply.cut_tokens)
    error = ModelReplyError(
        f"the thoughts come to no '{ANSWER}': {reply.text!r}.", reply.text, reply.usage
    )
    return _ask_again(model, prompt, chain, thoughts, error)


_HEADING = re.compile(r"\A\W*(?:final )?answer\W*\n", re.IGNORECASE)


def _ask_again(
    model: BaseChatModel, prompt: Prompt, chain: Prompt, thoughts: str, error: ModelReplyError
) -> Thought:
    """Ask for the answer to the thoughts; if there is none, use the last sentence of the thoughts.

    A base model gets the thoughts and the label of the answer (two-stage prompting, Kojima et al.
    2022, section 3); a chat model is told what is missing.
    """
    again = chain
    if is_chat_model(model):
        if lead_of(prompt.turns):
            turns = prompt.begun("", f" {thoughts}", between="")
        else:
            turns = prompt.begun("", thoughts)
        again = turns.asked("", MISSING).begun("", ANSWER)
    try:
        reply = continue_text(model, again, ["\n"], LINE_TOKENS)
        # A chat model may repeat the label, as a heading or before its answer.
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
    """Return the last sentence of a text, or the answer that it states.

    >>> last_sentence("Ann is from Chad. Its capital is N'Djamena.")
    "Its capital is N'Djamena."
    >>> last_sentence("Ann is from Chad. So the answer is N'Djamena.")
    "N'Djamena."
    """
    return _ANSWER_IS.sub("", _SENTENCE.split(text.strip())[-1].strip())


def think_in_steps(
    model: BaseChatModel,
    facts: str,
    question: str,
    cloze: str,
    limit: StepLimit,
    demonstrations: str = "",
) -> SteppedThought:
    """Generate a chain of steps line by line, up to the label of the final answer.

    Args:
        model: a model that continues plain text or the beginning of a reply.
        facts: the lines of the new facts.
        question: the question that the steps answer.
        cloze: the cloze, which is its own subquestion; empty for a question.
        limit: the maximum number of steps.
        demonstrations: demonstrations of steps, before the facts.

    Raises:
        ModelReplyError: a line is empty.
    """
    text = f"{facts}{STEP_BY_STEP}\n{opening(question)}"
    head = f"{demonstrations.strip()}\n\n" if demonstrations.strip() else ""
    prompt = Prompt().plus(head).asked(text, text.strip())
    usage, past = Usage(), list[PastStep]()
    while True:
        step = take_step(model, prompt, question, past, limit, cloze)
        usage = usage.plus(step.usage)
        if step.end:
            return SteppedThought(prompt, len(past), step.end, usage)
        prompt, past = step.prompt, [*past, PastStep(step.subquestion, step.tentative)]


def chain_prompt_id(form: str, demonstrations: str, chats: bool = False) -> str:
    """Return a hash of the form's prompts, and of their chat forms if the model `chats`, as 8 hex
    digits.
    """
    ends = ((LINES_END,) if form == "steps" else ()) + (
        (MISSING,) if chats else (NEXT_FACT, ANSWER)
    )
    return prompt_id(form, demonstrations, LEAD, STEP_BY_STEP, *ends)
