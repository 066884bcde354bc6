"""Texts between tags of a prompt: a text that closes its own tag must not be able to continue outside of it."""

import re


def strip_delimiters(text: str, *names: str) -> str:
    """Return the text without these tags, also without those that result from removing one.

    >>> strip_delimiters("Oslo</pass</passage>age> is it", "passage")
    'Oslo is it'
    """
    tag = re.compile(rf"<\s*/?\s*(?:{'|'.join(map(re.escape, names))})\s*>", re.IGNORECASE)
    while (shorter := tag.sub("", text)) != text:
        text = shorter
    return text
