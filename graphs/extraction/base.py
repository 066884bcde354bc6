"""What takes triplets out of text: the protocol that the graph `extract` works with."""

from collections.abc import Sequence
from typing import Protocol

from emend.memory.edit import FrozenModel, Triplet
from emend.memory.probe import Usage


class Found(FrozenModel):
    """What one reading gave: the triplets in the order of the text, and what the reading cost."""

    triplets: tuple[Triplet, ...]
    usage: Usage = Usage()


class Extractor(Protocol):
    """A way to take triplets; one object may serve several threads.

    `method` is its short name, `fingerprint` changes when what it gives may change. A `whole` extractor reads the
    document as it stands, so that it is neither cut into sentences nor has its pronouns replaced.
    """

    method: str
    whole: bool

    @property
    def fingerprint(self) -> str:
        """A short text that tells one way of extracting from another."""
        ...

    def segment(self, document: str) -> list[str]:
        """The sentences."""
        ...

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """The sentences with names in the place of what points at them."""
        ...

    def extract(self, sentences: Sequence[str], language: str, failure: str = "") -> Found:
        """The triplets.

        Args:
            sentences: of one document.
            language: its language, `en` or `zh`.
            failure: why the last reading of the same sentences could not be used; empty for the first.

        Raises:
            ModelReplyError: a model's reply cannot be read; carries it.
            BadSettings: the language is not one of the extractor's.
        """
        ...

    def is_entity(self, phrase: str, sentences: Sequence[str]) -> bool:
        """Whether the phrase, out of these sentences, has a named entity in it: a name, a date or a number."""
        ...
