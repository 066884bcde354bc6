"""Pause that a provider asks for, in a header of its answer or in the text of its error."""

import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = r"\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)\s*"
_LEADS = r"(?:try again (?:in|after)|retry (?:in|after)|retrydelay\W{1,6})"
_PAUSE = re.compile(rf"{_LEADS}\s*((?:{_DURATION})+)(?![a-z])")
"""`Please try again in 7m12s`, `Please retry in 34.07s`, `'retryDelay': '34s'`; in lower case."""
_DURATIONS = re.compile(r"(\d+(?:\.\d+)?)\s*(milli|ms|[smhd])")


def pause_in_headers(headers: Any) -> float | None:
    """Return the seconds of `Retry-After`, at least 0; None for a missing or unreadable header."""
    milliseconds, text = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        return None if text is None else max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(text)).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def pause_in_words(text: str) -> float | None:
    """Return the seconds that an error's text, in lower case, asks for; the longest of several, None for none."""
    return max((_seconds(match[1]) for match in _PAUSE.finditer(text)), default=None)


def _seconds(duration: str) -> float:
    parts = _DURATIONS.findall(duration)
    return sum(float(number) * _UNITS["ms" if unit == "milli" else unit] for number, unit in parts)
