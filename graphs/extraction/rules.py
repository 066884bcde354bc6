"""The extractor that needs no model, no download and no key."""

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from emend.graphs.extraction import coreference, inflection, patterns, roles, sentences, tagging, vocabulary, words
from emend.graphs.extraction.base import Found
from emend.memory.errors import BadSettings


class RulesExtractor:
    """Own rules for English: sentences, coreference to the document's main subject, and patterns over word classes."""

    method = "rules"
    whole = False

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the rules themselves."""
        digest = hashlib.sha256()
        for module in (coreference, inflection, patterns, roles, sentences, tagging, vocabulary, words):
            digest.update(Path(str(module.__file__)).read_bytes())
        return f"rules/{digest.hexdigest()[:8]}"

    def segment(self, document: str) -> list[str]:
        """The sentences of the document."""
        return sentences.split_sentences(document)

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """The sentences with names for pronouns, short names and definite descriptions."""
        return coreference.resolve(sentences)

    def extract(self, sentences: Sequence[str], language: str, failure: str = "") -> Found:
        """The triplets, in the order of the sentences, each once.

        Raises:
            BadSettings: the document is not English.
        """
        if language != "en":
            raise BadSettings(
                f"method 'rules' reads English only, and a document is in '{language}': use method 'llm'."
            )
        found = (triplet for sentence in sentences for triplet in patterns.find_triplets(sentence))
        return Found(triplets=tuple(dict.fromkeys(found)))

    def is_entity(self, phrase: str, sentences: Sequence[str]) -> bool:
        """Whether a word has a capital (but for 'I') or a digit."""
        return has_name(phrase)


def has_name(phrase: str) -> bool:
    """Whether a phrase holds a capitalised word or a number, or is in a script without capitals."""
    if re.search(r"[\u3040-\u30ff\u3400-\u9fff]", phrase):
        return True
    return any(word != "I" and (word[0].isupper() or word[0].isdigit()) for word in re.findall(r"\w+", phrase))
