"""Parsing of the pause that a provider asks for in a header or an error text."""

import math
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = (
    r"\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)\s*"
)
_LEADS = r"(?:try again (?:in|after)|retry (?:in|after)|retrydelay\W{1,6}|please wait)"
# `Please try again in 7m12s`, `Please retry in 34.07s`, `'retryDelay': '34s'`; in lower case.
_PAUSE = re.compile(rf"{_LEADS}\s*((?:{_DURATION})+)(?![a-z])")
_DURATIONS = re.compile(r"(\d+(?:\.\d+)?)\s*(milli|ms|[smhd])")


# Time at which a limit ends, in seconds or milliseconds since 1970, in OpenRouter's error body.
_RESET = re.compile(r"x-ratelimit-reset\W{1,6}(\d{10}|\d{13})\b")
# Maximum pause in seconds: a month, for a monthly quota. Longer pauses are reduced to it.
LONGEST = 31 * 86_400.0


def pause_in_headers(headers: Any) -> float | None:
    """Return the seconds of `Retry-After`, given as a number or a date; None if it is missing or
    invalid.
    """
    milliseconds, text = headers.get("retry-after-ms"), str(headers.get("retry-after") or "")
    try:
        return _bounded(float(text) if milliseconds is None else float(milliseconds) / 1000)
    except ValueError:
        pass
    try:
        return _bounded(max(0.0, parsedate_to_datetime(text).timestamp() - time.time()))
    except (TypeError, ValueError, OverflowError):
        return None


def pause_in_words(text: str) -> float | None:
    """Return the longest pause in seconds in an error's lower-case text, or None."""
    pauses = [_bounded(_seconds(match[1])) for match in _PAUSE.finditer(text)]
    resets = [_bounded(_time(match[1]) - time.time()) for match in _RESET.finditer(text)]
    return max(filter(None, pauses + resets), default=None)


def _time(digits: str) -> float:
    return float(digits) / (1000 if len(digits) == 13 else 1)


def _bounded(seconds: float) -> float | None:
    return min(seconds, LONGEST) if 0 <= seconds < math.inf else None


def _seconds(duration: str) -> float:
    parts = _DURATIONS.findall(duration)
    return sum(float(number) * _UNITS["ms" if unit == "milli" else unit] for number, unit in parts)
