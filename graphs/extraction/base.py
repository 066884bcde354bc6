"""Base class of the extractors of the graph `extract`."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from emend.graphs.extraction.sentences import split_sentences
from emend.memory import relations
from emend.memory.edit import FrozenModel, Triplet
from emend.memory.probe import Usage
from emend.memory.typography import has_name


class ExtractorOutput(FrozenModel):
    """Triplets of one document, in the order of the text, and the cost."""

    triplets: tuple[Triplet, ...]
    usage: Usage = Usage()


class Extractor(ABC):
    """Extraction method; one object may be used by several threads.

    `method` is its short name; `fingerprint` changes whenever its output may change. An extractor
    with `whole` reads the document as one text, without segmentation and coreference resolution.
    """

    method: str
    whole: bool = False
    fingerprint: str

    def segment(self, document: str) -> list[str]:
        """Return the sentences of the document."""
        return split_sentences(document)

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """Return the sentences with names instead of pronouns; by default unchanged."""
        return list(sentences)

    @abstractmethod
    def extract(
        self, sentences: Sequence[str], language: str, failure: str = ""
    ) -> ExtractorOutput:
        """Return the triplets of one document.

        Args:
            sentences: sentences of the document.
            language: language of the document, `en` or `zh`.
            failure: why the last reply about the same sentences was unusable; empty at first.

        Raises:
            ModelReplyError: a model's reply cannot be parsed; the error has the reply.
            BadSettings: the extractor does not support the language.
        """

    def is_entity(self, phrase: str, sentences: Sequence[str]) -> bool:
        """Return whether a phrase of these sentences contains a named entity: a name, a date or a
        number.
        """
        return has_name(phrase)


@cache
def rules_digest() -> str:
    """Return eight hex digits that change with any file of the rules."""
    folders = (Path(__file__).parent, Path(relations.__file__).parent)
    files = sorted(
        path for folder in folders for path in folder.iterdir() if path.suffix in (".py", ".toml")
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]
