"""A warning for texts in non-Latin scripts that an English-only encoder cannot represent."""

import logging
import re
import unicodedata
from collections.abc import Sequence

# Names of encoders trained only on English.
ENGLISH = re.compile(
    r"all-minilm|all-mpnet|(?<!m)contriever|(?<!multilingual-)e5-(?:small|base|large)|-en(?:-|$)",
    re.IGNORECASE,
)


def is_english_only(name: str) -> bool:
    """Return whether the encoder of that name was trained only on English."""
    return ENGLISH.search(name) is not None


def is_foreign(text: str) -> bool:
    """Return whether most letters of a text are not Latin."""
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    return bool(letters) and 2 * latin < len(letters)


class ScriptWarning:
    """Warns once when an English-only encoder gets a text in a non-Latin script.

    Args:
        name: the encoder's name.
    """

    def __init__(self, name: str) -> None:
        self._name, self._is_due = name, is_english_only(name)

    def note(self, texts: Sequence[str]) -> None:
        """Check texts before they are encoded."""
        if not self._is_due:
            return
        count = sum(map(is_foreign, texts))
        if count:
            self._is_due = False
            logging.getLogger(__name__).warning(
                "%s was trained only on English, but %d of %d texts are in another script, in "
                "which its similarities mean little: use --embedding lexical, or a multilingual "
                "model",
                self._name, count, len(texts),
            )  # fmt: skip
