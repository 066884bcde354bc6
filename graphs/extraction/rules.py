"""The extractor that needs no model, no download and no key."""

from collections.abc import Sequence

from emend.graphs.extraction import coreference, patterns
from emend.graphs.extraction.base import Extractor, ExtractorOutput, rules_digest
from emend.memory.errors import BadSettings

LONGEST = 1000
"""Maximum number of characters of a sentence; the longest of the benchmarks has about 500."""


class RulesExtractor(Extractor):
    """Rules for English: sentences, coreference to the document's main subject, and patterns over word classes.

    Raises:
        BadSettings: a model is named.
    """

    method = "rules"

    def __init__(self, model: object = None, form: str = "") -> None:
        if model is not None:
            raise BadSettings(
                f"method 'rules' uses no model, and '{model}' is named: leave it out, or choose 'spacy' or 'llm'."
            )
        self.fingerprint = f"rules/{rules_digest()}"

    def segment(self, document: str) -> list[str]:
        """The sentences of the document, but for longer ones than `LONGEST`, whose patterns could take minutes."""
        return [sentence for sentence in super().segment(document) if len(sentence) <= LONGEST]

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """The sentences with names for pronouns, short names and definite descriptions."""
        return coreference.resolve(sentences)

    def extract(self, sentences: Sequence[str], language: str, failure: str = "") -> ExtractorOutput:
        """The triplets in the order of the sentences, without repeats; only of English."""
        if language != "en":
            raise BadSettings(
                f"method 'rules' reads English only, and a document is in '{language}': use method 'llm'."
            )
        read = (sentence for sentence in sentences if len(sentence) <= 2 * LONGEST)  # a pronoun may be a long name now
        triplets = (triplet for sentence in read for triplet in patterns.find_triplets(sentence))
        return ExtractorOutput(triplets=tuple(dict.fromkeys(triplets)))
