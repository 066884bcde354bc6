"""Extractor by rules, which needs no model, no download and no key."""

from collections.abc import Sequence

from emend.graphs.extraction import coreference, patterns
from emend.graphs.extraction.base import Extractor, ExtractorOutput, rules_digest
from emend.memory.errors import BadSettings

# Maximum number of characters of a sentence; the longest of the benchmarks has about 500.
LONGEST = 1000


class RulesExtractor(Extractor):
    """Extractor by rules for English: sentence splitting, coreference to the document's main
    subject, and patterns over word classes.

    Raises:
        BadSettings: a model is named.
    """

    method = "rules"

    def __init__(self, model: object = None, form: str = "") -> None:
        if model is not None:
            raise BadSettings(
                f"method 'rules' uses no model, but '{model}' is given: leave it out, or choose "
                "'llm'."
            )
        self.fingerprint = f"rules/{rules_digest()}"

    def segment(self, document: str) -> list[str]:
        """Return the sentences of the document of at most `LONGEST` characters, since matching
        longer ones could take minutes.
        """
        return [sentence for sentence in super().segment(document) if len(sentence) <= LONGEST]

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """Return the sentences with full names for pronouns, short names and definite
        descriptions.
        """
        return coreference.resolve(sentences)

    def extract(
        self, sentences: Sequence[str], language: str, failure: str = ""
    ) -> ExtractorOutput:
        """Return the triplets in the order of the sentences, without repeats.

        Raises:
            BadSettings: the language is not English.
        """
        if language != "en":
            raise BadSettings(
                f"method 'rules' reads only English, but a document is in '{language}': use "
                "method 'llm'."
            )
        # sentences may be longer now, since names have replaced pronouns
        read = (sentence for sentence in sentences if len(sentence) <= 2 * LONGEST)
        triplets = (triplet for sentence in read for triplet in patterns.find_triplets(sentence))
        return ExtractorOutput(triplets=tuple(dict.fromkeys(triplets)))
