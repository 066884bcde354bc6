"""The authoring role: writing texts for benchmark construction, and judging them."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import TypeAdapter

from emend.agents.calls import score_targets
from emend.agents.judging.prompt_file import NAME, filled
from emend.agents.parsing.messages import answer_text, read_finish_reason, read_usage
from emend.agents.roles.completion import invoke
from emend.agents.roles.conversation import Prompt
from emend.agents.scoring import LimitedModel, ScoringModel, is_chat_model
from emend.memory.edit import FrozenModel, prompt_id
from emend.memory.errors import BadData, ModelReplyError, ReplyRefused
from emend.memory.files import read_input
from emend.memory.probe import Usage
from emend.memory.registry import nearest

# Maximum number of tokens of an authored text, for models with a limit.
TEXT_TOKENS = 320
# Finish reasons of replies truncated by their limit.
CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens"})
OPENING = re.compile(r"\W*(?:answer\W+)?(true|false|yes|no)\b", re.IGNORECASE)
DECISION = re.compile(r"\b(true|false)\b", re.IGNORECASE)
AGAIN = "(An earlier attempt was not accepted: {problem}. Write another one that avoids this.)"
BOTH = re.compile(r"\W*true\W+(?:and|or)\W+false\b", re.IGNORECASE)
# Introductory words of a chat model before the text itself.
_LEAD = re.compile(
    r"\A\s*(?:(?:sure|certainly|of course|okay|ok)\b[^\n]{0,80}\n+)?(?:here(?:'s| is| "
    r"are)\b[^\n]{0,120}:\s*\n+)?"
    r"(?:[*_#\s]*(?:paragraph|document|article|text)[*_\s]*:[*_\s]*)?",
    re.IGNORECASE,
)


class AuthorPrompt(FrozenModel):
    """A prompt: its task, what is asked, the label of the reply, and solved examples; names in
    braces are filled in.

    `source` is the step of a paper that the prompt implements. An example has the values of `ask`,
    and its `reply`.
    """

    source: str = ""
    task: str
    ask: str
    label: str
    examples: tuple[dict[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Hash of the prompt, 8 hex digits."""
        return prompt_id(self.model_dump(exclude={"source"}))

    @property
    def names(self) -> frozenset[str]:
        """Names that are filled in."""
        return frozenset(NAME.findall(self.ask))

    def fill(self, again: str = "", **values: str) -> Prompt:
        """Fill in the values; braces in the values are not replaced.

        Args:
            again: the problem with an earlier reply; empty for the first attempt.
            values: values by name.
        """
        task, turns, text = filled(self.task, values), list[BaseMessage](), ""
        for example in self.examples:
            question = filled(self.ask, example)
            turns += [HumanMessage(question), AIMessage(example["reply"])]
            text += f"{question}\n{self.label} {example['reply']}\n\n"
        question = filled(self.ask, values) + (
            f"\n\n{AGAIN.format(problem=again)}" if again else ""
        )
        turns.append(HumanMessage(question))
        turns[0] = HumanMessage(f"{task}\n\n{turns[0].text}")
        return Prompt(f"{task}\n\n{text}{question}\n{self.label}", tuple(turns))


Prompts = Mapping[str, AuthorPrompt]
_PROMPTS = TypeAdapter(dict[str, AuthorPrompt])
SHIPPED: Prompts = _PROMPTS.validate_python(
    tomllib.loads(Path(__file__).with_name("author.toml").read_text(encoding="utf-8"))
)


def load_prompts(path: str = "", shipped: Prompts = SHIPPED) -> Prompts:
    """Return the shipped prompts, overridden by those of a TOML file.

    Args:
        path: the TOML file; empty for none.
        shipped: the prompts that may be overridden.

    Raises:
        BadData: the file cannot be read, has an unknown prompt, or a prompt lacks a required name.
    """
    if not path:
        return shipped
    try:
        prompts = _PROMPTS.validate_python(
            tomllib.loads(read_input(Path(path).expanduser()).decode("utf-8"))
        )
    except (OSError, ValueError, RecursionError) as error:  # a ValidationError is a ValueError
        raise BadData(
            f"--prompts '{path}' cannot be read ({' '.join(str(error).split())[:200]}): give a "
            "TOML file with a table for each prompt, such as [paragraph], with task, ask and label "
            "in it."
        ) from error
    for name, prompt in prompts.items():
        if name not in shipped:
            raise BadData(
                f"--prompts '{path}', table [{name}] is unknown: {nearest(name, list(shipped))}"
            )
        if lacking := sorted(shipped[name].names - prompt.names):
            raise BadData(
                f"--prompts '{path}', table [{name}]: 'ask' lacks the placeholder {{{lacking[0]}}}."
            )
        if any({*prompt.names, "reply"} - example.keys() for example in prompt.examples):
            names = ", ".join(sorted(prompt.names))
            raise BadData(f"--prompts '{path}', table [{name}]: an example lacks {names} or reply.")
    return {**shipped, **prompts}


class AuthoredText(NamedTuple):
    """A text without the model's introduction, its cost, and whether the reply was truncated or
    refused.
    """

    text: str
    usage: Usage
    is_cut_off: bool = False
    is_refused: bool = False


def write_text(model: BaseChatModel, prompt: Prompt, new_tokens: int = TEXT_TOKENS) -> AuthoredText:
    """Return the text that a model writes for a prompt; empty if the reply has no text.

    Raises:
        ModelError: the call failed.
    """
    options: dict[str, Any] = (
        {"max_new_tokens": new_tokens} if isinstance(model, LimitedModel) else {}
    )
    chats = is_chat_model(model)
    try:  # a base model continues with invented demonstrations
        message = invoke(
            model, prompt.turns if chats else prompt.text, None if chats else ["\n\n"], **options
        )
        text = answer_text(message)
    except ReplyRefused as error:
        return AuthoredText(error.reply, error.usage, is_refused=True)
    except ModelReplyError as error:  # only thoughts
        return AuthoredText("", error.usage)
    is_cut_off = read_finish_reason(message) in CUT_OFF
    return AuthoredText(_LEAD.sub("", text).strip(), read_usage(message), is_cut_off)


class ChosenWord(NamedTuple):
    """A word chosen from those in the prompt, with the reply and the cost."""

    word: str
    reply: str
    usage: Usage


def decide(model: BaseChatModel, prompt: Prompt) -> ChosenWord:
    """Return a judge's True or False; for a local model the more probable word, since small models
    write neither.

    Raises:
        ModelReplyError: the reply contains neither, or both.
        ModelError: the call failed.
    """
    problem = "the judge says neither True nor False, or both."
    return _choose(model, prompt, ("True", "False"), _verdicts, problem)


def _verdicts(reply: str) -> set[str]:
    opening = OPENING.match(reply)
    verdicts = [opening[1]] if opening and not BOTH.match(reply) else DECISION.findall(reply)
    return {"True" if word.casefold() in ("true", "yes") else "False" for word in verdicts}


def _choose(
    model: BaseChatModel,
    prompt: Prompt,
    words: Sequence[str],
    read: Callable[[str], set[str]],
    problem: str,
) -> ChosenWord:
    """Return the word in a reply as parsed by `read`; for a local model the most probable word.

    Raises:
        ModelReplyError: the reply contains none of the words, or several.
    """
    messages = prompt.turns if is_chat_model(model) else prompt.text
    if isinstance(model, ScoringModel):
        scores = score_targets(model, messages, words)
        # On a tie choose the last word, so that an undecided judge says False.
        word = words[max(reversed(range(len(words))), key=scores.log_probs.__getitem__)]
        return ChosenWord(word, word, scores.usage)
    message = invoke(model, messages)
    reply, usage = answer_text(message), read_usage(message)
    stated = read(reply)
    if len(stated) != 1:
        raise ModelReplyError(problem, reply, usage)
    return ChosenWord(stated.pop(), reply, usage)


LETTERS = "A", "B", "C"
# A letter at the beginning, followed by punctuation or a line end; `A decrease` begins with an
# article.
_FIRST_LETTER = re.compile(
    r"\A\W*(?i:(?:(?:the|my) )?(?:(?:correct|best|right) "
    r")?(?:answer|option)\W+(?:is\W+)?(?:option\W+)?"
    r"|I (?:would "
    r")?choose\W+)?([ABC])(?!\W*(?i:and|or)\b|\W*[/,]\W*[ABC]\b)(?=[.):,*]|\s*(?:\n|\Z))"
)
_LETTER = re.compile(r"\(([ABC])\)")


def choose_option(model: BaseChatModel, prompt: Prompt) -> ChosenWord:
    """Return the option (A, B or C) that a model chooses; for a local model the most probable
    letter.

    Raises:
        ModelReplyError: the reply names none of them, or several.
        ModelError: the call failed.
    """
    return _choose(
        model,
        prompt,
        LETTERS,
        _letters,
        "the reader names none of the options A, B and C, or several.",
    )


def _letters(reply: str) -> set[str]:
    first = _FIRST_LETTER.match(reply)  # an explanation may mention other options
    return {first[1]} if first else set(_LETTER.findall(reply))


# Labels that a judge can give a text.
READINGS = ("usable", "refusal", "comment", "aside", "instruction", "prompt")
_READING = re.compile(rf"\b({'|'.join(READINGS)})\b", re.IGNORECASE)


def read_as(model: BaseChatModel, prompt: Prompt) -> ChosenWord:
    """Return a judge's label of a text; for a local model the most probable label.

    Raises:
        ModelReplyError: the reply contains none of the labels, or several.
        ModelError: the call failed.
    """
    problem = f"the judge names none of {', '.join(READINGS)}, or several."
    return _choose(
        model,
        prompt,
        READINGS,
        lambda reply: {word.lower() for word in _READING.findall(reply)},
        problem,
    )
