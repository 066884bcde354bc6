"""Folding of letters: accents, optional vowel signs and ligatures."""

import unicodedata
from functools import lru_cache

# Ranges of combining marks to remove; vowel signs of Indian scripts are part of the spelling and
# stay.
_MARKS = (
    (0x0300, 0x036F),  # accents of Latin, Greek and Cyrillic letters
    (0x0591, 0x05C7),  # Hebrew vowel points
    (0x0610, 0x061A),
    (0x0640, 0x0640),  # Arabic tatweel
    (0x064B, 0x065F),  # Arabic vowel signs
    (0x0670, 0x0670),
    (0x06D6, 0x06ED),
)
_DROPPED = {code: None for first, last in _MARKS for code in range(first, last + 1)}
_VARIANTS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
_CAPITALS = {
    letter.upper(): plain.capitalize() for letter, plain in _VARIANTS.items() if letter != "ı"
}
_PLAIN = str.maketrans(_VARIANTS | _CAPITALS)


def without_accents(text: str) -> str:
    """Return a text without accents and vowel signs, each ligature as its letters; case is kept.

    >>> without_accents("Łódź, Æsir, प्रेम")
    'Lodz, Aesir, प्रेम'
    """
    if text.isascii():
        return text
    letters = unicodedata.normalize("NFD", text).translate(_DROPPED)
    return unicodedata.normalize("NFC", letters).translate(_PLAIN)


@lru_cache(maxsize=1 << 17)
def fold_letters(word: str) -> str:
    """Return a word in lower case, `without_accents`.

    >>> fold_letters("Röntgen"), fold_letters("Straße"), fold_letters("Łódź")
    ('rontgen', 'strasse', 'lodz')
    """
    return without_accents(word.casefold())


def fold_accents_in_place(text: str) -> str:
    """Replace accented letters by plain ones where that is a single letter, so that positions do
    not change.
    """
    return text if text.isascii() else "".join(map(_plain_letter, text))


@lru_cache(maxsize=1 << 12)
def _plain_letter(letter: str) -> str:
    plain = without_accents(letter)
    return plain if len(plain) == 1 else letter
