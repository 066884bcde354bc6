"""Judge prompts from a TOML or JSON file, such as a paper's prompt with its demonstrations."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from emend.agents.judging.fence import neutralise, shorten
from emend.agents.judging.reply_form import ReplyForm
from emend.memory.edit import FrozenModel, prompt_id
from emend.memory.errors import BadData, problem_of, reason_of
from emend.memory.files import read_input

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

# A name in braces, in whose place a value is filled in.
NAME = re.compile(r"\{(\w+)\}")
_NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
# Names in `ask` that number the items of a call; without them each item is asked in a call of its
# own.
NUMBERING = frozenset({"numeral", "number"})


class JudgePrompt(FrozenModel):
    """A judge's prompt: instructions, solved examples, and the line about each item, with names in
    braces filled in.

    `source` is the prompt's origin. `system` is a separate message; `task` precedes the first
    example or item. An example has values for the names in `ask`, and the judge's reply as `reply`,
    or as `verdict` if `{reply}` in `ask` is the answer to judge. `form` is the last line of a
    reply, if the judge does not already know it, and `words` maps its words to values.
    """

    source: str = ""
    system: str = ""
    task: str = ""
    ask: str
    examples: tuple[dict[str, str], ...] = ()
    form: str = ""
    words: dict[str, str] = {}

    @property
    def id(self) -> str:
        """Hash of the prompt and of the parsing of replies, 8 hex digits."""
        return prompt_id(self.model_dump(exclude={"source"}))

    @property
    def names(self) -> frozenset[str]:
        """Names that are filled in for each item."""
        return frozenset(NAME.findall(self.ask))

    @property
    def example_reply(self) -> str:
        """Name of the judge's reply in an example."""
        return "verdict" if "reply" in self.names else "reply"

    @property
    def numbered(self) -> bool:
        """True if several items may be asked in one call."""
        return bool(self.names & NUMBERING)

    @property
    def reply_form(self) -> ReplyForm | None:
        """The prompt's own reply form, if it has one."""
        return ReplyForm(line=self.form, words=self.words) if self.form else None

    def messages(self, items: Sequence[Mapping[str, Sequence[str]]]) -> list["BaseMessage"]:
        """Return the messages for items, each given as texts by name; texts cannot act as chat
        turns.
        """
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

        turns: list[BaseMessage] = []
        for example in self.examples:
            question = filled(_unnumbered(self.ask), example)
            turns += [HumanMessage(question), AIMessage(example[self.example_reply])]
        lines = (self._line(number, texts) for number, texts in enumerate(items, 1))
        turns.append(HumanMessage("\n".join(lines)))
        if self.task:
            turns[0] = HumanMessage(f"{self.task.strip()}\n\n{turns[0].text}")
        return [SystemMessage(self.system), *turns] if self.system else turns

    def _line(self, number: int, texts: Mapping[str, Sequence[str]]) -> str:
        values = {name: shorten(neutralise("\n".join(parts))) for name, parts in texts.items()}
        return filled(self.ask, {"numeral": _NUMERALS[number - 1], "number": str(number), **values})


def _unnumbered(ask: str) -> str:
    """Return the line without its number, since examples are not items of the call."""
    return re.sub(r"^\{(?:numeral|number)\}[.):]?\s*", "", ask)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the text with values in the place of names in braces; other braces stay."""
    return NAME.sub(lambda hit: values.get(hit[1], hit[0]), text)


EXAMPLE = '[equivalence], and in it ask = "Question: {question} Reply: {reply} Gold: {reference}"'
P = TypeVar("P", bound=JudgePrompt)
_PROMPTS = TypeAdapter(dict[str, JudgePrompt])


def read_prompts(path: Path) -> dict[str, JudgePrompt]:
    """Read the prompts of a TOML or JSON file, by kind of judge.

    Raises:
        BadData: see `read_tables`.
    """
    return read_tables(path, _PROMPTS, EXAMPLE)


def read_tables(path: Path, adapter: TypeAdapter[dict[str, P]], example: str) -> dict[str, P]:
    """Read the prompts of a TOML or JSON file, by the names of their tables.

    Args:
        path: the file; parsed as JSON if its name ends in .json.
        adapter: the pydantic adapter that validates the tables.
        example: an example of a table, for errors.

    Raises:
        BadData: the file cannot be read, has no prompt, or has an invalid one; names table and
            field.
    """
    try:
        text = read_input(path.expanduser()).decode("utf-8-sig")
        content: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError, BadData) as error:
        raise BadData(
            f"cannot read the prompts '{path}': {reason_of(error)}. Give a TOML file "
            f"with {example}."
        ) from error
    try:
        prompts = adapter.validate_python(content)
        for table in prompts.values():
            _ = table.reply_form
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "form"
        raise BadData(
            f"--prompts '{path}', '{where}': {problem_of(first)}. A prompt is {example}."
        ) from error
    if not prompts:
        raise BadData(f"--prompts '{path}' contains no prompt: give {example}.")
    for kind, table in prompts.items():
        for number, solved in enumerate(table.examples, 1):
            if lacking := {*table.names - NUMBERING, table.example_reply} - solved.keys():
                where = f"table [{kind}], example {number}"
                raise BadData(f"--prompts '{path}', {where}: it lacks '{min(lacking)}'.")
    return prompts
