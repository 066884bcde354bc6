"""The answering role: prompts with new facts."""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Protocol

from emend.agents.scoring import join_target
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe, Style
from emend.memory.registry import nearest


@dataclass(frozen=True)
class Wording:
    """A template of prompts with facts; its placeholders are {fact}, {facts}, {asked} and {prompt}."""

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


_WORDINGS = {
    "new_fact": Wording(
        "one line per fact, as IKE has it",
        fact="New Fact: {fact}",
        between="\n",
        whole="{facts}\n{asked}",
        cloze="Prompt: {prompt}",
        question="Q: {prompt}\nA:",
        raw="{prompt}",
    ),
    "based_on_facts": Wording(
        "facts in one paragraph that runs on into the prompt, as DocTER has it",
        fact="{fact}",
        between=" ",
        whole="Here are some new facts: {facts} Based on the facts above, {asked}",
        cloze="{prompt}",
        question="{prompt}\nA:",
        raw="{prompt}",
    ),
}
WORDINGS = _WORDINGS | {
    "brief": replace(
        _WORDINGS["new_fact"],
        summary="as new_fact, and asks for the answer alone: for chat models, which like to answer in sentences",
        before="Answer with the answer alone, in as few words as possible.\n\n",
    )
}
ALONE = {"cloze": "{prompt}", "question": "Q: {prompt}\nA:", "raw": "{prompt}"}
"""Templates of {asked} without facts, for every prompt template."""
BETWEEN_DEMONSTRATIONS = "\n\n"


class Solved(Protocol):
    """A solved example for the prompt: a fact, what is asked under it, and the right continuation."""

    @property
    def fact(self) -> str:
        """The new fact; empty for an example without one."""
        ...

    @property
    def prompt(self) -> str:
        """The prompt."""
        ...

    @property
    def style(self) -> str:
        """Its `Style`."""
        ...

    @property
    def target(self) -> str:
        """The right continuation."""
        ...


def find_wording(name: str) -> Wording:
    """The prompt template of that name.

    Raises:
        BadSettings: unknown name.
    """
    if name not in WORDINGS:
        raise BadSettings(f"unknown prompt template '{name}': {nearest(name, list(WORDINGS))}")
    return WORDINGS[name]


def build_prompt(
    probe: Probe, facts: Sequence[str] = (), demonstrations: Sequence[Solved] = (), wording: str = "new_fact"
) -> str:
    """The exact prompt: the probe's examples, demonstrations, the facts, then the probe's prompt in its style.

    Without facts a cloze is left as it is and a question becomes "Q: ...", newline, "A:"; the template's `before`
    precedes both.

    Raises:
        BadSettings: unknown prompt template, or a demonstration of unknown style.
    """
    words = find_wording(wording)
    solved = [
        join_target(_asked(words, (d.fact,) if d.fact else (), d.prompt, d.style), d.target) for d in demonstrations
    ]
    solved = [probe.examples, *solved] if probe.examples else solved
    return words.before + BETWEEN_DEMONSTRATIONS.join([*solved, _asked(words, facts, probe.prompt, probe.style)])


def repeat_probe(transcript: str, probe: Probe, facts: Sequence[str], wording: str) -> str:
    """A transcript of steps, followed by the probe's own prompt under the facts that the steps retrieved.

    For a probe with choices and a model that takes one line at a time: the last line of such steps is a name, which is
    none of the choices.

    Raises:
        BadSettings: unknown prompt template.
    """
    return (
        f"{transcript.rstrip()}{BETWEEN_DEMONSTRATIONS}{build_prompt(probe, tuple(dict.fromkeys(facts)), (), wording)}"
    )


def _asked(words: Wording, facts: Sequence[str], prompt: str, style: Style | str) -> str:
    if style not in ALONE:
        raise BadSettings(f"unknown style '{style}' of a demonstration: {nearest(style, list(ALONE))}")
    if not facts:
        return ALONE[style].format(prompt=prompt)
    question = {"cloze": words.cloze, "question": words.question, "raw": words.raw}[style].format(prompt=prompt)
    joined = words.between.join(words.fact.format(fact=fact.strip()) for fact in facts)
    return words.whole.format(facts=joined, asked=question)


def wording_id(wording: str) -> str:
    """Eight hex digits that change with the prompt template.

    Raises:
        BadSettings: unknown prompt template.
    """
    template = find_wording(wording)
    parts = (
        *astuple(template)[1:-1],
        *((template.before,) if template.before else ()),
        *sorted(ALONE.items()),
        BETWEEN_DEMONSTRATIONS,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
