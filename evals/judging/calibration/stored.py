"""Paths and reading of stored judge calibrations."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.memory.edit import content_id
from emend.memory.paths import cache_folder


def judge_id(judges: Sequence[str]) -> str:
    """Return the file name of a calibration: the judges' names, made safe for a path, and a digest.

    >>> judge_id(["openai:gpt-4.1"])[:15]
    'openai-gpt-4.1-'
    """
    names = sorted(judges)
    plain = re.sub(r"[^\w.]+", "-", "+".join(names)).strip("-.")[:60]
    return f"{plain}-{content_id('judge', names)[:8]}"


def calibration_file(judges: Sequence[str], kind: str) -> Path:
    """Return the calibration file of these judges for that kind."""
    return cache_folder("calibration") / judge_id(judges) / f"{kind}.json"


def read_calibration(judges: Sequence[str], kind: str) -> dict[str, Any] | None:
    """Read the calibration of these judges for that kind, or return None."""
    try:
        content = json.loads(calibration_file(judges, kind).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if isinstance(content, dict):
        return content
    return None
