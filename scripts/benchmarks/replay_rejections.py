"""Replays bodies of providers from public threads to the real client: class, calls, seconds, effect of a resume.

Run from the project's root: `python scripts/benchmarks/replay_rejections.py docs/benchmarks/rejections.csv`. Waits are
added up and not taken.
"""

import argparse
import csv
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.provider.rejections import COLUMNS, REJECTIONS, measured_row, replay  # noqa: E402


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with arguments.table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in REJECTIONS:
            with tempfile.TemporaryDirectory() as folder:
                writer.writerow(measured_row(row, replay(row, Path(folder))))


if __name__ == "__main__":
    main()
