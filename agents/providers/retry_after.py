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


LONGEST = 31 * 86_400.0
"""Longest pause that is believed, in seconds: a month, as for a monthly quota."""


def pause_in_headers(headers: Any) -> float | None:
    """Return the seconds of `Retry-After`, as a number or a date; None for a missing header and for nonsense."""
    milliseconds, text = headers.get("retry-after-ms"), str(headers.get("retry-after") or "")
    try:
        return _plausible(float(text) if milliseconds is None else float(milliseconds) / 1000)
    except ValueError:
        pass
    try:
        return _plausible(max(0.0, parsedate_to_datetime(text).timestamp() - time.time()))
    except (TypeError, ValueError, OverflowError):
        return None


def pause_in_words(text: str) -> float | None:
    """Return the seconds that an error's text, in lower case, asks for; the longest of several, None for none."""
    return max((pause for match in _PAUSE.finditer(text) if (pause := _plausible(_seconds(match[1])))), default=None)


def _plausible(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= LONGEST else None


def _seconds(duration: str) -> float:
    parts = _DURATIONS.findall(duration)
    return sum(float(number) * _UNITS["ms" if unit == "milli" else unit] for number, unit in parts)
