"""The extractor that needs no model, no download and no key."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from emend.graphs.extraction import (
    base,
    coreference,
    inflection,
    patterns,
    roles,
    sentences,
    tagging,
    vocabulary,
    words,
)
from emend.graphs.extraction.base import Extractor, ExtractorOutput
from emend.memory.errors import BadSettings


class RulesExtractor(Extractor):
    """Rules for English: sentences, coreference to the document's main subject, and patterns over word classes."""

    method = "rules"

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """A text that changes with the rules."""
        modules = (base, coreference, inflection, patterns, roles, sentences, tagging, vocabulary, words)
        return f"rules/{digest_of(*(str(module.__file__) for module in modules))}"

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """The sentences with names for pronouns, short names and definite descriptions."""
        return coreference.resolve(sentences)

    def extract(self, sentences: Sequence[str], language: str, failure: str = "") -> ExtractorOutput:
        """The triplets in the order of the sentences, without repeats.

        Raises:
            BadSettings: the document is not English.
        """
        if language != "en":
            raise BadSettings(
                f"method 'rules' reads English only, and a document is in '{language}': use method 'llm'."
            )
        triplets = (triplet for sentence in sentences for triplet in patterns.find_triplets(sentence))
        return ExtractorOutput(triplets=tuple(dict.fromkeys(triplets)))


def digest_of(*files: str) -> str:
    """Eight hex digits of a hash over files."""
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:8]
