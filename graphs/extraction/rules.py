"""The extractor that needs no model, no download and no key."""

from collections.abc import Sequence

from emend.graphs.extraction import coreference, patterns
from emend.graphs.extraction.base import Extractor, ExtractorOutput, rules_digest
from emend.memory.errors import BadSettings


class RulesExtractor(Extractor):
    """Rules for English: sentences, coreference to the document's main subject, and patterns over word classes."""

    method = "rules"

    def __init__(self) -> None:
        self.fingerprint = f"rules/{rules_digest()}"

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
