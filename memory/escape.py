"""Escaping of texts from models, documents and servers before a terminal or a page shows them."""

import re
from collections.abc import Callable
from typing import Any

from emend.memory.redaction import hide_keys

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

# First characters that make a spreadsheet read a cell as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def safe(text: str, hide: Callable[[str], str] = hide_keys) -> str:
    """Redact keys and make control characters and direction marks visible; keep line ends and tabs.

    `hide` redacts the keys; pass a `key_hider` for many texts.
    """
    return visible_controls(hide(text))


def visible_controls(text: str) -> str:
    """Return the text with control characters and direction marks made visible."""
    return _CONTROLS.sub(_visible, text)


def one_line(text: str, limit: int = 0, hide: Callable[[str], str] = hide_keys) -> str:
    """Escape a text as `safe` does and join it to one line, cut to `limit` characters if that is
    not 0.
    """
    line = safe(text.replace("\n", "\\n").replace("\t", "\\t"), hide)
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"


def guard_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would read as a formula."""
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def safe_cell(value: Any) -> Any:
    """Return a text as one line that no spreadsheet reads as a formula, or any other value
    unchanged.
    """
    return guard_formula(one_line(value)) if isinstance(value, str) else value


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
