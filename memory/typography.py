"""Normalisation of typography that does not change a text's meaning: quotes, dashes, invisible
characters, case and white space.
"""

import re
import unicodedata
from functools import lru_cache

_VARIANTS = {
    "'": "\u2018\u2019\u201a\u201b\u2039\u203a\u02bb\u02bc\u2032\u00b4`",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\u301f",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63",
}
_PLAIN = {ord(variant): plain for plain, variants in _VARIANTS.items() for variant in variants}
# Variation selectors, which choose between glyphs of a character.
_SELECTORS = range(0xFE00, 0xFE10)


def fold_typography(text: str) -> str:
    """Return a text in NFKC with plain quotes and hyphens and without invisible characters; case
    and lines are kept.

    Invisible characters are soft hyphens, zero-width and direction marks (category Cf) and
    variation selectors.
    """
    if text.isascii():
        return text.replace("`", "'")
    plain = unicodedata.normalize("NFKC", text.translate(_PLAIN)).translate(_PLAIN)
    visible = (c for c in plain if unicodedata.category(c) != "Cf" and ord(c) not in _SELECTORS)
    return unicodedata.normalize("NFKC", "".join(visible))


@lru_cache(maxsize=65536)
def fold_text(text: str) -> str:
    """Apply `fold_typography`, case folding and single spaces: texts that differ only in typography
    and case become equal.
    """
    return " ".join(unicodedata.normalize("NFKC", fold_typography(text).casefold()).split())


_CJK = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
# Chinese and Japanese; Thai and Lao, Burmese, Khmer.
UNSPACED_LETTER = re.compile(rf"[{_CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")


def are_unspaced(first: str, second: str) -> bool:
    """Return whether both characters belong to scripts written without spaces between words."""
    return bool(UNSPACED_LETTER.fullmatch(first) and UNSPACED_LETTER.fullmatch(second))


def full_stop(text: str) -> str:
    """Return the full stop for a sentence with this last word; Chinese and Japanese have their
    own.
    """
    return "\u3002" if re.fullmatch(f"[{_CJK}]", text[-1:]) else "."


def has_name(phrase: str) -> bool:
    """Return whether a phrase contains a capitalised word or a number, or is in a script without
    capitals.
    """
    if re.search(r"[\u3040-\u30ff\u3400-\u9fff]", phrase):
        return True
    return any(
        word != "I" and (word[0].isupper() or word[0].isdigit())
        for word in re.findall(r"\w+", phrase)
    )
