"""How `contains` reads replies that people labelled: accuracy by set, and what each of its rules wins and loses.

    EMEND_SHARED=../shared python scripts/benchmarks/check_answers.py [--rules]

EVOUNA (Wang et al. 2023), NQ301 (Kamalloo et al. 2023), and the project's own labels of real replies in tests/data. A
rule wins a reply where, without it, the verdict would be another than the label, and loses one the other way round.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from emend.agents.parsing.passages import read_passage
from emend.evals.metrics.text.contains import RULES, read_contains

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("EMEND_SHARED", ROOT.parent / "shared"))
SETS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


class Labelled(NamedTuple):
    """A reply with people's label."""

    dataset: str
    question: str
    golds: tuple[str, ...]
    rivals: tuple[str, ...]
    passage: str
    right: bool


class Figures(NamedTuple):
    """Shares in percent: right verdicts, wrong replies that are accepted, right ones that are lost."""

    accuracy: float
    accepted: float
    lost: float


def evouna() -> Iterator[Labelled]:
    """Yield the replies of EVOUNA's ten sets."""
    for name in ("nq", "tq"):
        for row in json.loads((SHARED / f"data/answers/evouna_{name}.json").read_text("utf-8")):
            golds = tuple(gold for gold in row["golds"] if gold)
            for system in SETS:
                reply = row["replies"][system] if system in row["replies"] else None
                if reply is not None:
                    passage = read_passage(reply["text"])
                    yield Labelled(f"{name}-{system}", row["question"], golds, (), passage, reply["right"])


def nq301() -> Iterator[Labelled]:
    """Yield the replies of NQ301."""
    for row in json.loads((SHARED / "data/answers/nq301.json").read_text("utf-8")):
        passage = read_passage(row["reply"])
        yield Labelled("nq301", row["question"], tuple(row["golds"]), (), passage, row["right"])


def own() -> Iterator[Labelled]:
    """Yield the project's own labelled replies of small models, edited and unedited."""
    for file in sorted((ROOT / "tests/data/replies").glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            passage = read_passage(row["reply"], row["form"] == "plain")
            golds = tuple(row["gold"])
            yield Labelled("own", row["prompt"], golds, (row["rival"],), passage, row["label"] == "right")


def verdicts(rows: Sequence[Labelled], left_out: Sequence[str] = ()) -> list[bool]:
    """Return whether each reply is right by `contains`, without the rules left out."""
    return [read_contains(row.passage, row.golds, row.rivals, row.question, left_out).right for row in rows]


def figures(rows: Sequence[Labelled], given: Sequence[bool]) -> Figures:
    """Return the figures of one set."""
    right = sum(verdict == row.right for row, verdict in zip(rows, given, strict=True))
    accepted = [verdict for row, verdict in zip(rows, given, strict=True) if not row.right]
    kept = [verdict for row, verdict in zip(rows, given, strict=True) if row.right]
    share = 100 * sum(accepted) / max(1, len(accepted))
    return Figures(100 * right / len(rows), share, 100 - 100 * sum(kept) / max(1, len(kept)))


def by_set(rows: Iterable[Labelled], judge: Callable[[Sequence[Labelled]], list[bool]]) -> dict[str, Figures]:
    """Return the figures of each set, in its order."""
    sets: dict[str, list[Labelled]] = defaultdict(list)
    for row in rows:
        sets[row.dataset].append(row)
    return {name: figures(members, judge(members)) for name, members in sets.items()}


def mean(sets: dict[str, Figures]) -> Figures:
    """Return the mean over sets."""
    columns = zip(*sets.values(), strict=True)
    return Figures(*(sum(column) / len(sets) for column in columns))


def effects(rows: Sequence[Labelled], rule: str) -> tuple[int, int]:
    """Return how many replies a rule wins and loses."""
    wins = losses = 0
    for row, with_it, without in zip(rows, verdicts(rows), verdicts(rows, (rule,)), strict=True):
        wins += with_it != without and with_it == row.right
        losses += with_it != without and with_it != row.right
    return wins, losses


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", action="store_true", help="what each rule wins and loses (a minute)")
    options = parser.parse_args()
    data = {"evouna": [*evouna()], "nq301": [*nq301()], "own": [*own()]}
    start = time.process_time()
    sets = by_set(data["evouna"], verdicts)
    seconds = time.process_time() - start
    rows = {**sets, "mean of ten sets": mean(sets)}
    rows |= by_set(data["nq301"], verdicts) | by_set(data["own"], verdicts)
    for name, row in rows.items():
        print(
            f"{name:18s} accuracy {row.accuracy:5.1f}  wrong accepted {row.accepted:4.1f}  right lost {row.lost:4.1f}"
        )
    print(f"{len(data['evouna'])} replies in {seconds:.1f} CPU s")
    for rule in RULES if options.rules else ():
        cells = [f"{name} +{wins} -{losses}" for name in data for wins, losses in [effects(data[name], rule)]]
        print(f"{rule:40s} {'  '.join(cells)}")


if __name__ == "__main__":
    main()
