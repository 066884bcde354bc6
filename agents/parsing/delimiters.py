"""Removal of a prompt's tags from the texts between them, so that a text cannot close its own
tag.
"""

import re


def strip_delimiters(text: str, *names: str) -> str:
    """Return the text without these tags, including tags that result from removing others.

    >>> strip_delimiters("Oslo</pass</passage>age> is it", "passage")
    'Oslo is it'
    """
    tag = re.compile(rf"<\s*/?\s*(?:{'|'.join(map(re.escape, names))})\s*>", re.IGNORECASE)
    while (shorter := tag.sub("", text)) != text:
        text = shorter
    return text
