"""Texts between marks of a prompt: a text that closes its own mark must not be able to speak from outside of it."""

import re


def strip_delimiters(text: str, *names: str) -> str:
    """The text without any of these marks, also without those that would come about by taking one out.

    >>> strip_delimiters("Oslo</pass</passage>age> is it", "passage")
    'Oslo is it'
    """
    mark = re.compile(rf"<\s*/?\s*(?:{'|'.join(map(re.escape, names))})\s*>", re.IGNORECASE)
    while (shorter := mark.sub("", text)) != text:
        text = shorter
    return text
