"""Instructions for a benchmark from a file, such as a paper's prompts, which replace Emend's."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from string import ascii_uppercase

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import TypeAdapter

from emend.agents.judging.prompt_file import NAME, JudgePrompt, filled, read_tables
from emend.agents.roles.conversation import Prompt
from emend.memory.edit import prompt_id
from emend.memory.errors import BadData
from emend.memory.probe import Probe

# Separator between a file of instructions and the benchmark's own template in a template's name.
SEPARATOR = "|"
# The table for kinds of probes without their own table.
ANY = "any"
NAMES = frozenset({"question", "prompt", "facts", "options", "subject"})
EXAMPLE = '[fact], and in it ask = "Event: {facts} Question: {question} Answer:"'


class Instruction(JudgePrompt):
    """The instruction for one kind of probe: `ask` with {question}, {facts}, {options}, {subject}
    and {prompt} (the benchmark's own), with `system`, `task`, `examples` and the `form` of replies.

    `alone` is the instruction for probes without facts; if it is missing, {facts} is empty for
    these.
    """

    alone: JudgePrompt | None = None

    def chosen(self, has_facts: bool) -> JudgePrompt:
        """Return the prompt for a probe with or without facts."""
        if has_facts or self.alone is None:
            return self
        return self.alone


Instructions = Mapping[str, Instruction]
_TABLES = TypeAdapter(dict[str, Instruction])


def joined_name(path: str, wording: str) -> str:
    """Return the template name that combines a file of instructions and a benchmark's own
    template.
    """
    return f"{path}{SEPARATOR}{wording}" if path else wording


def split_name(name: str) -> tuple[str, str]:
    """Split a template name into the file of instructions ("" if there is none) and the benchmark's
    own template.
    """
    path, _, wording = name.rpartition(SEPARATOR)
    return path, wording


def read_instructions(path: Path) -> Instructions:
    """Read the instructions of a TOML or JSON file, by kind of probe or a prefix of it.

    Raises:
        BadData: the file cannot be read, or a table is invalid; names table and field.
    """
    tables = read_tables(path, _TABLES, EXAMPLE)
    for kind, table in tables.items():
        for prompt in (table, table.alone or table):
            if unknown := sorted(prompt.names - NAMES):
                raise BadData(
                    f"--prompts '{path}', table [{kind}]: there is no {{{unknown[0]}}}; use "
                    f"{', '.join(sorted(NAMES))}."
                )
    return tables


@lru_cache(maxsize=8)
def _cached(path: str, changed: float) -> Instructions:
    return read_instructions(Path(path))


def load_instructions(path: str) -> Instructions:
    """Return the instructions of a file, cached until it changes; none for an empty path."""
    if not path:
        return {}
    file = Path(path).expanduser()
    return _cached(str(file), file.stat().st_mtime if file.is_file() else 0.0)


def instruction_of(tables: Instructions, kind: str, has_facts: bool) -> JudgePrompt | None:
    """Return the prompt for a kind of probe: that of the longest table name that is a prefix of it,
    or else of `any`; None if there is none.
    """
    names = [name for name in tables if kind.startswith(name)] or [
        name for name in tables if name == ANY
    ]
    if not names:
        return None
    return tables[max(names, key=len)].chosen(has_facts)


def unused_tables(tables: Instructions, kinds: Collection[str]) -> list[str]:
    """Return the names of the tables that apply to no probe of these kinds."""
    return [
        name for name in tables if name != ANY and not any(kind.startswith(name) for kind in kinds)
    ]


def instructions_id(tables: Instructions) -> str:
    """Return a hash of the instructions as 8 hex digits."""
    return prompt_id({name: table.model_dump() for name, table in tables.items()})


def instructed_prompt(prompt: JudgePrompt, probe: Probe, facts: Sequence[str]) -> Prompt:
    """Return the prompt of a probe with an instruction, as text and as messages."""
    options = (f"({_letter(number)}) {text}" for number, text in enumerate(probe.choices))
    values = {
        "question": probe.query or probe.prompt,
        "prompt": probe.prompt,
        "facts": "\n".join(fact.strip() for fact in facts),
        "options": " ".join(options),
        "subject": probe.subject,
    }
    turns: list[BaseMessage] = []
    texts = [prompt.system.strip(), prompt.task.strip()]
    for example in prompt.examples:
        question = filled(prompt.ask, example)
        turns += [HumanMessage(question), AIMessage(example["reply"])]
        texts.append(f"{question} {example['reply']}")
    last = filled(prompt.ask, values)
    turns.append(HumanMessage(last))
    if prompt.task:
        turns[0] = HumanMessage(f"{prompt.task.strip()}\n\n{turns[0].text}")
    if prompt.system:
        turns.insert(0, SystemMessage(prompt.system.strip()))
    return Prompt("\n\n".join([*(text for text in texts if text), last]), tuple(turns))


def read_form(prompt: JudgePrompt, reply: str) -> str | None:
    """Return the answer in the last line of a reply that matches the prompt's form; None if no line
    matches.

    A form has one field in braces. With `words`, the answer is the value of the word in the field.
    """
    before, _, after = NAME.sub("\0", prompt.form).partition("\0")
    lines = list(_rests(before.split(), reply))
    after = after.strip().casefold()
    for line in reversed(lines):
        answer = line.strip()
        if answer.casefold().endswith(after):
            answer = answer[: len(answer) - len(after)].strip()
            if answer:
                words = {word.casefold(): value for word, value in prompt.words.items()}
                return words.get(answer.casefold().rstrip("."), answer)
    return None


def _rests(before: Sequence[str], reply: str) -> Iterator[str]:
    """Yield the text after the words of a form, up to the end of the line; all lines for a form
    without words.
    """
    if not before:
        yield from reply.splitlines()
        return
    for hit in re.finditer(r"\s*".join(map(re.escape, before)), reply, re.IGNORECASE):
        yield reply[hit.end() :].lstrip().partition("\n")[0]


def _letter(number: int) -> str:
    """Return the letter of an option, or its number from 27 on."""
    return ascii_uppercase[number] if number < len(ascii_uppercase) else str(number + 1)
