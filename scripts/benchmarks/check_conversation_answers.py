"""Compare scores of answers about conversations on LoCoMo's replies, among them ones that were written to be wrong.

    python -m scripts.benchmarks.check_conversation_answers [--data FOLDER] [--size N]

For each set of replies, in percent: LoCoMo's F1, `contains`, `equivalence` and the recorded judge. A score that gives
much to `wrong-vague` or `wrong-specific` says little of the others. Replies to questions whose gold an audit found
wrong are left out. `--data` has `replies.json` and `gold_errors.json`; `--size` draws so many replies of each set.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from emend.evals.metrics.scorers import score
from emend.memory.probe import Answer, Probe
from scripts.equivalence.train import SHARED

KINDS = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop"}
SCORERS = ("locomo_f1", "contains", "equivalence")


def replies(folder: Path, size: int | None) -> dict[str, list[dict[str, Any]]]:
    """Return the replies by the run that they are of."""
    errors = json.loads((folder / "gold_errors.json").read_text(encoding="utf-8"))
    wrong = {item["question_id"] for item in errors}
    by_run: dict[str, list[dict[str, Any]]] = {}
    for item in json.loads((folder / "replies.json").read_text(encoding="utf-8")):
        if item["question_id"] not in wrong and int(item["category"]) in KINDS:
            by_run.setdefault(item["run"], []).append(item)
    for items in by_run.values():
        Random(0).shuffle(items)
        del items[size:]
    return dict(sorted(by_run.items(), key=lambda pair: not pair[0].startswith("wrong")))


def figures(items: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the mean of each score, and the share that most verdicts of the judge accept."""
    values: dict[str, list[float]] = {}
    for item in items:
        kind = KINDS[int(item["category"])]
        probe = Probe(kind=kind, prompt=item["question"], style="question", gold=(str(item["gold"]),), scorers=SCORERS)
        for name, value in score(probe, Answer(text=item["reply"])).values.items():
            values.setdefault(name, []).append(value)
        values.setdefault("judge", []).append(float(sum(item["verdicts"]) >= 2))
    for name, numbers in values.items():
        yield name, 100 * sum(numbers) / len(numbers)


def main() -> None:
    """Print a line for each set of replies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "locomo")
    parser.add_argument("--size", type=int)
    options = parser.parse_args()
    for run, items in replies(options.data, options.size).items():
        cells = "  ".join(f"{name} {value:5.1f}" for name, value in figures(items))
        print(f"{run:28s} n={len(items):4d}  {cells}", flush=True)


if __name__ == "__main__":
    main()
