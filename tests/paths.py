"""Folders that tests read: the checkout, the data in `tests/data`, and the data that lies outside the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
# Benchmarks' published files and trained models, too large or not licensed to be committed; tests skip without them.
SHARED = Path(os.environ.get("EMEND_SHARED") or ROOT.parent / "shared")
