"""How long a provider asks to be left alone: in a header of its answer, or in the words of its error."""

import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)\s*"
_LEADS = r"(?:try again (?:in|after)|retry (?:in|after)|retrydelay\W{1,6})"
_SAID = re.compile(rf"{_LEADS}\s*((?:{_PART})+)(?![a-z])")
"""`Please try again in 7m12s`, `Please retry in 34.07s`, `'retryDelay': '34s'`; in lower case."""
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(milli|ms|[smhd])")


def pause_in_headers(headers: Any) -> float | None:
    """The seconds of `Retry-After`, not below 0; None where it is not there, or says nothing that can be read."""
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
    """The seconds that an error's text, in lower case, asks for: the longest where it says several."""
    told = [_seconds(found[1]) for found in _SAID.finditer(text)]
    return max(told, default=None)


def _seconds(duration: str) -> float:
    parts = _PARTS.findall(duration)
    return sum(float(number) * _UNITS["ms" if unit == "milli" else unit] for number, unit in parts)
