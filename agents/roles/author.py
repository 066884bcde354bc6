"""The authoring role: texts from which benchmarks are built, and a judge's decisions about them."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import TypeAdapter, ValidationError

from emend.agents.calls import score_targets
from emend.agents.parsing.messages import answer_text, read_finish_reason, read_usage
from emend.agents.roles.completion import invoke
from emend.agents.roles.conversation import Prompt
from emend.agents.scoring import LimitedModel, ScoringModel, is_chat_model
from emend.memory.edit import FrozenModel, prompt_id
from emend.memory.errors import BadData, ModelReplyError, ReplyRefused
from emend.memory.files import read_input
from emend.memory.probe import Usage
from emend.memory.registry import nearest

TEXT_TOKENS = 320
"""Maximum number of tokens of an authored text, for models that have a limit of their own."""
CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens"})
"""Reasons of providers for a reply that ended at its limit."""
OPENING = re.compile(r"\W*(?:answer\W+)?(true|false|yes|no)\b", re.IGNORECASE)
DECISION = re.compile(r"\b(true|false)\b", re.IGNORECASE)
AGAIN = "(An earlier attempt was not accepted: {problem}. Write another one that avoids this.)"
_NAME = re.compile(r"\{(\w+)\}")
BOTH = re.compile(r"\W*true\W+(?:and|or)\W+false\b", re.IGNORECASE)
_LEAD = re.compile(
    r"\A\s*(?:(?:sure|certainly|of course|okay|ok)\b[^\n]{0,80}\n+)?(?:here(?:'s| is| are)\b[^\n]{0,120}:\s*\n+)?"
    r"(?:[*_#\s]*(?:paragraph|document|article|text)[*_\s]*:[*_\s]*)?",
    re.IGNORECASE,
)
"""Opening words of a chat model before the text itself."""


class AuthorPrompt(FrozenModel):
    """A prompt: its task, what is asked, the label of the reply, and solved examples; names in braces are filled in.

    `source` is the step of a paper that it carries out. An example has the values of `ask`, and its `reply`.
    """

    source: str = ""
    task: str
    ask: str
    label: str
    examples: tuple[dict[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Eight hex digits that change with the prompt."""
        return prompt_id(self.model_dump(exclude={"source"}))

    @property
    def names(self) -> frozenset[str]:
        """Names that are filled in when it is asked."""
        return frozenset(_NAME.findall(self.ask))

    def fill(self, again: str = "", **values: str) -> Prompt:
        """The prompt with the values filled in; braces in them stay as they are.

        Args:
            again: what was wrong with an earlier reply; empty for the first.
            values: by name.
        """
        task, turns, text = _filled(self.task, values), list[BaseMessage](), ""
        for example in self.examples:
            question = _filled(self.ask, example)
            turns += [HumanMessage(question), AIMessage(example["reply"])]
            text += f"{question}\n{self.label} {example['reply']}\n\n"
        question = _filled(self.ask, values) + (f"\n\n{AGAIN.format(problem=again)}" if again else "")
        turns.append(HumanMessage(question))
        turns[0] = HumanMessage(f"{task}\n\n{turns[0].text}")
        return Prompt(f"{task}\n\n{text}{question}\n{self.label}", tuple(turns))


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _NAME.sub(lambda hit: values.get(hit[1], hit[0]), text)


Prompts = Mapping[str, AuthorPrompt]
_PROMPTS = TypeAdapter(dict[str, AuthorPrompt])
SHIPPED: Prompts = _PROMPTS.validate_python(
    tomllib.loads(Path(__file__).with_name("author.toml").read_text(encoding="utf-8"))
)


def load_prompts(path: str = "") -> Prompts:
    """The shipped prompts; with a TOML file, those that it has take their place.

    Raises:
        BadData: the file cannot be read, has an unknown prompt, or a prompt lacks a name that is filled in.
    """
    if not path:
        return SHIPPED
    try:
        prompts = _PROMPTS.validate_python(tomllib.loads(read_input(Path(path).expanduser()).decode("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise BadData(
            f"--prompts '{path}' cannot be read ({' '.join(str(error).split())[:200]}): give a TOML file with a table "
            "for each prompt, such as [paragraph], with task, ask and label in it."
        ) from error
    for name, prompt in prompts.items():
        if name not in SHIPPED:
            raise BadData(f"--prompts '{path}', table [{name}] is unknown: {nearest(name, list(SHIPPED))}")
        if lacking := sorted(SHIPPED[name].names - prompt.names):
            raise BadData(f"--prompts '{path}', table [{name}]: 'ask' lacks {{{lacking[0]}}}, which is filled in.")
        if any({*prompt.names, "reply"} - example.keys() for example in prompt.examples):
            names = ", ".join(sorted(prompt.names))
            raise BadData(f"--prompts '{path}', table [{name}]: an example lacks {names} or reply.")
    return {**SHIPPED, **prompts}


class AuthoredText(NamedTuple):
    """A text without what the model says before it, its cost, and whether the reply was cut off or refused."""

    text: str
    usage: Usage
    is_cut_off: bool = False
    is_refused: bool = False


def write_text(model: BaseChatModel, prompt: Prompt, new_tokens: int = TEXT_TOKENS) -> AuthoredText:
    """The text that a model writes to a prompt; a reply without any text gives an empty one.

    Raises:
        ModelError: the call failed.
    """
    options: dict[str, Any] = {"max_new_tokens": new_tokens} if isinstance(model, LimitedModel) else {}
    chats = is_chat_model(model)
    try:  # a base model goes on with demonstrations of its own
        message = invoke(model, prompt.turns if chats else prompt.text, None if chats else ["\n\n"], **options)
        text = answer_text(message)
    except ReplyRefused as error:
        return AuthoredText(error.reply, error.usage, is_refused=True)
    except ModelReplyError as error:  # thoughts alone
        return AuthoredText("", error.usage)
    is_cut_off = read_finish_reason(message) in CUT_OFF
    return AuthoredText(_LEAD.sub("", text).strip(), read_usage(message), is_cut_off)


class JudgeDecision(NamedTuple):
    """A judge's True or False, its reply, and the cost."""

    holds: bool
    reply: str
    usage: Usage


def decide(model: BaseChatModel, prompt: Prompt) -> JudgeDecision:
    """True or False by a judge; a local model's is the more probable word, since small ones write neither.

    Raises:
        ModelReplyError: the reply says neither, or both.
        ModelError: the call failed.
    """
    chosen = _choose(model, prompt, ("True", "False"), _verdicts, "the judge says neither True nor False, or both.")
    return JudgeDecision(chosen.word == "True", chosen.reply, chosen.usage)


def _verdicts(reply: str) -> set[str]:
    opening = OPENING.match(reply)
    verdicts = [opening[1]] if opening and not BOTH.match(reply) else DECISION.findall(reply)
    return {"True" if word.casefold() in ("true", "yes") else "False" for word in verdicts}


class ChosenWord(NamedTuple):
    """One of the words that a prompt leaves to choose from, the reply, and the cost."""

    word: str
    reply: str
    usage: Usage


def _choose(
    model: BaseChatModel, prompt: Prompt, words: Sequence[str], read: Callable[[str], set[str]], problem: str
) -> ChosenWord:
    """The word that a reply states, as `read` finds it; of a local model the most probable one.

    Raises:
        ModelReplyError: the reply states none, or several.
    """
    messages = prompt.turns if is_chat_model(model) else prompt.text
    if isinstance(model, ScoringModel):
        scores = score_targets(model, messages, words)
        # Of two words alike the last: a judge that cannot decide says False.
        word = words[max(reversed(range(len(words))), key=scores.log_probs.__getitem__)]
        return ChosenWord(word, word, scores.usage)
    message = invoke(model, messages)
    reply, usage = answer_text(message), read_usage(message)
    stated = read(reply)
    if len(stated) != 1:
        raise ModelReplyError(problem, reply, usage)
    return ChosenWord(stated.pop(), reply, usage)


LETTERS = "A", "B", "C"
_FIRST_LETTER = re.compile(
    r"\A\W*(?i:(?:(?:the|my) )?(?:(?:correct|best|right) )?(?:answer|option)\W+(?:is\W+)?(?:option\W+)?"
    r"|I (?:would )?choose\W+)?([ABC])(?!\W*(?i:and|or)\b|\W*[/,]\W*[ABC]\b)(?=[.):,*]|\s*(?:\n|\Z))"
)
"""A letter at the beginning with a mark or a line's end after it; `A decrease` begins with an article."""
_LETTER = re.compile(r"\(([ABC])\)")


def choose_option(model: BaseChatModel, prompt: Prompt) -> ChosenWord:
    """One of the options A, B and C by a reader; a local model's is the most probable letter.

    Raises:
        ModelReplyError: the reply names none of them, or several.
        ModelError: the call failed.
    """
    return _choose(model, prompt, LETTERS, _letters, "the reader names none of the options A, B and C, or several.")


def _letters(reply: str) -> set[str]:
    first = _FIRST_LETTER.match(reply)  # an explanation may name other options
    return {first[1]} if first else set(_LETTER.findall(reply))


READINGS = ("usable", "refusal", "comment", "aside", "instruction", "prompt")
"""Words of a judge for a text that it reads."""
_READING = re.compile(rf"\b({'|'.join(READINGS)})\b", re.IGNORECASE)


def read_as(model: BaseChatModel, prompt: Prompt) -> ChosenWord:
    """The word of a judge for what a text is; a local model's is the most probable one.

    Raises:
        ModelReplyError: the reply has none of the words, or several.
        ModelError: the call failed.
    """
    problem = f"the judge names none of {', '.join(READINGS)}, or several."
    return _choose(model, prompt, READINGS, lambda reply: {word.lower() for word in _READING.findall(reply)}, problem)
