"""Text of a model, a document or a server, made harmless before a terminal or a page shows it."""

import re
from collections.abc import Callable

from emend.memory.redaction import hide_keys

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet takes a cell for a formula."""


def safe(text: str, hide: Callable[[str], str] = hide_keys) -> str:
    """The text without keys, with control characters and direction marks made visible; line ends and tabs stay.

    `hide` takes out the keys: for many texts at once, a `key_hider`.
    """
    return visible_controls(hide(text))


def visible_controls(text: str) -> str:
    """The text with control characters and direction marks made visible."""
    return _CONTROLS.sub(_visible, text)


def one_line(text: str, limit: int = 0, hide: Callable[[str], str] = hide_keys) -> str:
    """Escape a text as `safe` does and join it to one line, cut to `limit` characters if that is not 0."""
    line = safe(text.replace("\n", "\\n").replace("\t", "\\t"), hide)
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
