"""The answering role: how new facts and a prompt are put before a model, and how its reply is read."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Protocol

from emend.agents.parsing.reasoning_text import strip_reasoning
from emend.agents.scoring import join_target
from emend.memory.errors import BadSettings, ModelReplyError
from emend.memory.probe import Probe, Reading, Style
from emend.memory.registry import nearest


@dataclass(frozen=True)
class Wording:
    """How a prompt with facts is worded; fields are {fact}, {facts}, {asked} and {prompt}."""

    summary: str
    fact: str
    """Each fact; then all of them, joined by `between`, are {facts}."""
    between: str
    whole: str
    """{facts} and what is {asked}."""
    cloze: str
    """What is asked, from the {prompt}, for each style."""
    question: str
    raw: str
    before: str = ""
    """Stands before everything, with facts and without."""


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
"""What is asked where no fact stands before it, whatever the wording."""
BETWEEN_DEMONSTRATIONS = "\n\n"


class Solved(Protocol):
    """A solved example for the prompt: a fact, what is asked under it, and the right continuation."""

    @property
    def fact(self) -> str:
        """The new fact; empty for an example without one."""
        ...

    @property
    def prompt(self) -> str:
        """What is asked."""
        ...

    @property
    def style(self) -> str:
        """How it is asked, a `Style`."""
        ...

    @property
    def target(self) -> str:
        """The right continuation."""
        ...


def find_wording(name: str) -> Wording:
    """The wording of that name.

    Raises:
        BadSettings: there is none.
    """
    if name not in WORDINGS:
        raise BadSettings(f"unknown wording '{name}': {nearest(name, list(WORDINGS))}")
    return WORDINGS[name]


def build_prompt(
    probe: Probe, facts: Sequence[str] = (), demonstrations: Sequence[Solved] = (), wording: str = "new_fact"
) -> str:
    """The exact text a model is given: examples, demonstrations, the facts, then the probe's prompt in its style.

    Without facts a cloze stands as it is and a question as "Q: ...", newline, "A:", behind what the wording has before
    everything.

    Raises:
        BadSettings: unknown wording, or a demonstration of unknown style.
    """
    words = find_wording(wording)
    shown = [
        join_target(_asked(words, (d.fact,) if d.fact else (), d.prompt, d.style), d.target) for d in demonstrations
    ]
    solved = [probe.examples, *shown] if probe.examples else shown
    return words.before + BETWEEN_DEMONSTRATIONS.join([*solved, _asked(words, facts, probe.prompt, probe.style)])


def put_again(walk: str, probe: Probe, facts: Sequence[str], wording: str) -> str:
    """A walk in steps and, behind it, the probe once more as it is, under the facts that were found on the way.

    For a probe with choices and a model that takes one line at a time: the last line of such a walk is a name, which
    is none of the choices.

    Raises:
        BadSettings: unknown wording.
    """
    return f"{walk.rstrip()}{BETWEEN_DEMONSTRATIONS}{build_prompt(probe, tuple(dict.fromkeys(facts)), (), wording)}"


def _asked(words: Wording, facts: Sequence[str], prompt: str, style: Style | str) -> str:
    if style not in ALONE:
        raise BadSettings(f"unknown style '{style}' of a demonstration: {nearest(style, list(ALONE))}")
    if not facts:
        return ALONE[style].format(prompt=prompt)
    asked = {"cloze": words.cloze, "question": words.question, "raw": words.raw}[style].format(prompt=prompt)
    told = words.between.join(words.fact.format(fact=fact.strip()) for fact in facts)
    return words.whole.format(facts=told, asked=asked)


def prompt_id(wording: str) -> str:
    """Eight hex digits that change when a template of the wording does.

    Raises:
        BadSettings: unknown wording.
    """
    told = find_wording(wording)
    parts = (
        *astuple(told)[1:-1],
        *((told.before,) if told.before else ()),
        *sorted(ALONE.items()),
        BETWEEN_DEMONSTRATIONS,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


NEXT_QUESTION = "\nQuestion:"
"""Where a model that has answered goes on to ask itself; the rest is not its answer."""
_ANSWER = re.compile(r"(?:\*\*)?\banswer(?:\*\*)?\s*[:：](?:\*\*)?", re.IGNORECASE)
"""What stands before the answer to a chain of thought, in bold or not."""


def read_answer(reply: str, reading: Reading, cloze: str = "", prompt: str = "") -> str:
    r"""The answer that a reply holds.

    Thoughts between a reasoning model's own marks are passed over. After a chain of thought it is the line that follows
    the last "Answer:", the form of the chains that ReCoE (Figures 13 and 14) and MQuAKE show; how their authors read it
    is not published.

    A line that says once more, as chat models do, the `cloze` that it goes on from, or the lead on which the `prompt`
    ends, such as "A:", is read from behind it.

    >>> read_answer("Brisko is 40 metres deep.\nAnswer: Halmen.\n\nQuestion: Which", "thoughts")
    'Halmen'
    >>> read_answer("Brisko lies in Halmen.", "line", "Brisko lies in")
    'Halmen'
    >>> read_answer("A: Halmen.", "line", prompt="Q: Where does Brisko lie?\nA:")
    'Halmen'

    Raises:
        ModelReplyError: thoughts do not come to an answer.
    """
    if reading == "thoughts":
        return _concluded(reply)
    said = strip_reasoning(reply)
    if reading == "line":
        return _behind(clean_answer(_behind_lead(said, prompt)), cloze)
    return said.partition(NEXT_QUESTION)[0].strip()


def thoughts_and_answer(reply: str) -> tuple[str, str]:
    r"""What stands before the last "Answer:" of a chain of thought, and the line behind it; "" where there is none.

    >>> thoughts_and_answer("Brisko is deep.\n**Answer**: Halmen.\n\nQuestion: Which")
    ('Brisko is deep.', 'Halmen')
    """
    own = reply.partition(NEXT_QUESTION)[0]
    *_, last = [None, *_ANSWER.finditer(own)]
    if last is None:
        return own.strip(), ""
    return own[: last.start()].strip(), clean_answer(own[last.end() :].replace("**", ""))


def _concluded(reply: str) -> str:
    _, answer = thoughts_and_answer(strip_reasoning(reply))
    if not answer:
        raise ModelReplyError(
            f"the thoughts come to no 'Answer:': {reply!r}. Allow more new tokens where they are cut off, or take a "
            "model that keeps to the form of the solved examples.",
            reply,
        )
    return answer


def _behind_lead(reply: str, prompt: str) -> str:
    """What follows the prompt's last line in a reply that begins with it, where that line ends with a colon."""
    said, lead = reply.strip(), prompt.rstrip().rpartition("\n")[2].strip()
    return said[len(lead) :] if lead.endswith((":", "：")) and said.startswith(lead) else reply


def _behind(answer: str, cloze: str) -> str:
    """What follows the cloze in an answer that begins with it as whole words; else the answer."""
    said, again = (" ".join(text.split()) for text in (answer, cloze))
    rest = said[len(again) :]
    repeated = again and said.casefold().startswith(again.casefold()) and rest[:1] in (" ", ":")
    return rest.strip(" :") if repeated else answer


def clean_answer(text: str) -> str:
    """The first line that says something, without white space around it and without a full stop at its end."""
    line = text.strip().partition("\n")[0].strip()
    return line.removesuffix(".").rstrip()
