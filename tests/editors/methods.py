"""The memory-based methods, each with a toy model that answers in its form, and many edits for them."""

from dataclasses import replace
from typing import Any

from emend.editors.base import EditorContext
from emend.editors.conformance import EXAMPLES
from emend.editors.conformance_toys import PlainMemory
from emend.editors.registry import EDITORS
from emend.memory.edit import Edit, Triplet
from emend.memory.retrieval.registry import RETRIEVERS
from tests.editors.speakers import speaker_for

MANY = [
    Edit.from_triplet(
        Triplet(subject=f"Land{place}", relation="capital", object=f"Town{place}"), "The capital of {} is"
    )
    for place in range(1000)
]


def context(name: str, **changed: Any) -> EditorContext:
    """What the method is built of, with what is changed."""
    plain = EditorContext(speaker_for(name), PlainMemory(), RETRIEVERS.load("bm25"), EXAMPLES)
    return replace(plain, **changed)


def build(name: str, **changed: Any) -> Any:
    """The method by that name, with what is changed in its context."""
    return EDITORS.load(name)(context(name, **changed))
