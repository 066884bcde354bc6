"""Scripted authors and judges: replies that depend on the prompt alone, most of them usable."""

import zlib

from emend.agents.roles.author import SHIPPED
from emend.graphs.registry import CONSTRUCTIONS
from tests.provider.protocols import Asked

TASKS = {name: prompt.task.partition("{")[0][:60] for name, prompt in SHIPPED.items()}
NUMBERED = ("", "The harbour", "The council", "A local museum", "The school")


def fact_of(prompt: str) -> str:
    """The fact that a paragraph is asked for, without what was wrong with an earlier one."""
    return prompt.rpartition("Fact: ")[2].partition("\n")[0].strip()


def write_akew(prompt: str) -> str:
    """A paragraph of its own for each fact; one fact in four is refused at first, and one in eight always."""
    if TASKS["paragraph"] not in prompt:
        return CONSTRUCTIONS.load("akew").sample(prompt)
    fact = fact_of(prompt)
    kind = zlib.crc32(fact.encode()) % 8
    if kind == 0 or (kind == 1 and "An earlier attempt" not in prompt):
        return "I'm sorry, but I cannot write about that."
    return CONSTRUCTIONS.load("akew").sample(prompt)


def author(asked: Asked) -> str:
    """The reply of the author, or of the judge, to a provider's request."""
    return write_akew(asked.prompt)
