"""The answering role: prompts with new facts."""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Protocol

from emend.agents.roles.conversation import ASSISTANT, Prompt, as_text
from emend.agents.roles.instructions import (
    instructed_prompt,
    instruction_of,
    instructions_id,
    load_instructions,
    split_name,
)
from emend.agents.scoring import join_target
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe, Style
from emend.memory.registry import nearest


@dataclass(frozen=True)
class Wording:
    """A template of prompts with facts; its placeholders are {fact}, {facts}, {asked} and
    {prompt}.
    """

    summary: str
    fact: str
    """Template of each fact; {facts} is all of them, joined by `between`."""
    between: str
    whole: str
    """Template of {facts} and the question that is {asked}."""
    cloze: str
    """Templates of {asked} from the {prompt}, one for each style."""
    question: str
    raw: str
    before: str = ""
    """Precedes everything, with facts and without."""


WORDINGS = {
    name: Wording(**row)
    for name, row in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
# Templates of {asked} without facts, for all prompt templates.
ALONE = {"cloze": "{prompt}", "question": "Q: {prompt}\nA:", "raw": "{prompt}"}
# The same for a turn of a chat model, with or without facts; the chat template itself indicates
# that a reply follows.
IN_TURNS = ALONE | {"question": "{prompt}"}
BETWEEN_DEMONSTRATIONS = "\n\n"


class Solved(Protocol):
    """A solved example for the prompt: a fact, the prompt under it, and the correct
    continuation.
    """

    @property
    def fact(self) -> str:
        """New fact; empty for an example without a fact."""

    @property
    def prompt(self) -> str:
        """Prompt of the example."""

    @property
    def style(self) -> str:
        """`Style` of the prompt."""

    @property
    def target(self) -> str:
        """Correct continuation of the prompt."""


def find_wording(name: str) -> Wording:
    """Return a prompt template by name; for a file of instructions, the template that it wraps.

    Raises:
        BadSettings: unknown name.
    """
    name = split_name(name)[1]
    if name not in WORDINGS:
        raise BadSettings(f"unknown prompt template '{name}': {nearest(name, list(WORDINGS))}")
    return WORDINGS[name]


def build_prompt(
    probe: Probe,
    facts: Sequence[str] = (),
    demonstrations: Sequence[Solved] = (),
    wording: str = "new_fact",
) -> str:
    """Return the text of `probe_prompt`."""
    return probe_prompt(probe, facts, demonstrations, wording).text


def probe_prompt(
    probe: Probe,
    facts: Sequence[str] = (),
    demonstrations: Sequence[Solved] = (),
    wording: str = "new_fact",
) -> Prompt:
    """Build the exact prompt: the probe's examples, demonstrations, the facts, then the probe's
    prompt in its style.

    Without facts a cloze is unchanged, and a question becomes "Q: ...", newline, "A:" (in a chat
    turn only the question); the template's `before` precedes both.

    A file of instructions with an entry for the probe's kind replaces all of this.

    Raises:
        BadSettings: unknown prompt template, or a demonstration of unknown style.
    """
    tables = load_instructions(split_name(wording)[0])
    if instruction := instruction_of(tables, probe.kind, bool(facts)):
        return instructed_prompt(instruction, probe, facts)
    words = find_wording(wording)
    prompt = Prompt().asked(words.before, words.before.strip()) if words.before else Prompt()
    if probe.examples:
        prompt = prompt.plus(probe.examples + BETWEEN_DEMONSTRATIONS)
    for solved in demonstrations:
        prompt = _ask(
            prompt, words, (solved.fact,) if solved.fact else (), solved.prompt, solved.style
        )
        target = join_target(prompt.text, solved.target)[len(prompt.text) :]
        prompt = prompt.begun(target + BETWEEN_DEMONSTRATIONS, solved.target.strip())
    return _ask(prompt, words, facts, probe.prompt, probe.style, begins=probe.reading == "thoughts")


def repeat_probe(transcript: Prompt, probe: Probe, facts: Sequence[str], wording: str) -> Prompt:
    """Build a transcript of steps, followed by the probe's own prompt with the facts that the steps
    retrieved.

    For a probe with choices and a model that is asked line by line: the last line of such steps is
    a name, which is none of the choices.

    Raises:
        BadSettings: unknown prompt template.
    """
    again = probe_prompt(probe, tuple(dict.fromkeys(facts)), (), wording)
    steps = Prompt(transcript.text.rstrip(), transcript.turns)
    return steps.asked(f"{BETWEEN_DEMONSTRATIONS}{again.text}", as_text(again.turns))


def _ask(
    prompt: Prompt,
    words: Wording,
    facts: Sequence[str],
    question: str,
    style: Style | str,
    *,
    begins: bool = False,
) -> Prompt:
    """Return the prompt with the facts and the question; its last line may begin the reply."""
    text, turn = (
        _asked(words, facts, question, style, templates) for templates in (ALONE, IN_TURNS)
    )
    before, _, label = text.rpartition("\n")
    if begins and label.strip() in ASSISTANT:
        return prompt.asked(f"{before}\n", before).begun(label, label)
    return prompt.asked(text, turn)


def _asked(
    words: Wording, facts: Sequence[str], prompt: str, style: Style | str, alone: Mapping[str, str]
) -> str:
    if style not in alone:
        raise BadSettings(
            f"unknown style '{style}' of a demonstration: {nearest(style, list(alone))}"
        )
    if not facts:
        return alone[style].format(prompt=prompt)
    templates = {"cloze": words.cloze, "question": words.question, "raw": words.raw}
    if alone is IN_TURNS:
        templates["question"] = IN_TURNS["question"]
    joined = words.between.join(words.fact.format(fact=fact.strip()) for fact in facts)
    return words.whole.format(facts=joined, asked=templates[style].format(prompt=prompt))


def wording_id(wording: str, chats: bool = False) -> str:
    """Return a hash of the prompt template, and of its chat form if the model `chats`, as 8 hex
    digits.

    Raises:
        BadSettings: unknown prompt template.
    """
    template = find_wording(wording)
    parts = (
        *astuple(template)[1:-1],
        *((template.before,) if template.before else ()),
        *sorted(ALONE.items()),
        BETWEEN_DEMONSTRATIONS,
        *(sorted(IN_TURNS.items()) if chats else ()),
        *(
            [instructions_id(tables)]
            if (tables := load_instructions(split_name(wording)[0]))
            else []
        ),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
