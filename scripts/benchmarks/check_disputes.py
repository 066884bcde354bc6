"""Disputes of recorded verdicts on LoCoMo's replies: vague wrong answers left accepted, right ones disputed.

Then the same rule on replies that people labelled (EVOUNA), by which nothing was made: the right ones that it
disputes, and the wrong ones that it would dispute if a judge accepted them.

The verdicts are gpt-4o-mini's, three to a reply, of a public audit (see SOURCES.md beside the data); the
majority counts, and questions whose gold answer the audit found wrong are left out. The rule of
`agents/judging/evidence.py` was made by the conversations 0 to 2; the others show whether it holds.

    python scripts/benchmarks/check_disputes.py
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("EMEND_SHARED") or ROOT / "../shared") / "data" / "locomo"
ANSWERS = SHARED.parent / "answers"
HALVES: dict[str, tuple[int, ...]] = {"made by (0-2)": (0, 1, 2), "held out (3-4)": (3, 4), "all": (0, 1, 2, 3, 4)}
SHARES = (0.01, 0.1, 0.15, 0.2, 0.25, 0.34, 0.5)
VAGUE_LEFT, RIGHT_DISPUTED = 0.25, 0.06
"""At most so many vague wrong answers may stay accepted, and so many right ones be disputed."""


class JudgedReply(NamedTuple):
    run: str
    conversation: int
    question: str
    gold: str
    text: str
    accepted: bool

    @property
    def right(self) -> bool:
        """A model's honest answer that the judge accepts."""
        return self.accepted and not self.run.startswith("wrong-")


def read_replies(folder: Path = SHARED) -> list[JudgedReply]:
    wrong_golds = {row["question_id"] for row in json.loads((folder / "gold_errors.json").read_text("utf-8"))}
    rows = json.loads((folder / "replies.json").read_text("utf-8"))
    return [as_judged(row) for row in rows if row["question_id"] not in wrong_golds]


def as_judged(row: dict[str, Any]) -> JudgedReply:
    accepted = 2 * sum(row["verdicts"]) > len(row["verdicts"])
    return JudgedReply(row["run"], row["conversation"], row["question"], row["gold"], row["reply"], accepted)


class DisputeFigures(NamedTuple):
    """Counts of vague and of specific wrong answers, and of right ones: all, accepted, and disputed of these."""

    vague: tuple[int, int, int]
    specific: tuple[int, int, int]
    right: tuple[int, int, int]

    @property
    def vague_left(self) -> float:
        return (self.vague[1] - self.vague[2]) / self.vague[0]

    @property
    def right_disputed(self) -> float:
        return self.right[2] / self.right[1]


def measure(replies: Sequence[JudgedReply], is_disputed: Callable[[JudgedReply], bool]) -> DisputeFigures:
    """The figures of a rule that says whether an accepted reply is disputed."""

    def count(rows: list[JudgedReply]) -> tuple[int, int, int]:
        accepted = [row for row in rows if row.accepted]
        return len(rows), len(accepted), sum(map(is_disputed, accepted))

    wrong = [[row for row in replies if row.run == run] for run in ("wrong-vague", "wrong-specific")]
    return DisputeFigures(count(wrong[0]), count(wrong[1]), count([row for row in replies if row.right]))


def of_half(replies: Sequence[JudgedReply], name: str) -> list[JudgedReply]:
    return [row for row in replies if row.conversation in HALVES[name]]


def disputed_by_words(row: JudgedReply) -> bool:
    """Whether the rule of recorded verdicts, which have no quotation, disputes an acceptance."""
    from emend.agents.judging.evidence import Compared, find_doubt

    return bool(find_doubt(Compared(row.question, tuple(row.gold.split("\n")), row.text)))


def read_labelled(file: Path) -> Iterator[JudgedReply]:
    """Replies with people's labels in the place of verdicts; gold answers are lines."""
    for row in json.loads(file.read_text("utf-8")):
        for system, reply in row["replies"].items():
            yield JudgedReply(system, -1, row["question"], "\n".join(row["golds"]), reply["text"] or "", reply["right"])


def curve(replies: Sequence[JudgedReply]) -> Iterator[str]:
    """The figures by the least share of a gold answer's specifics."""
    from emend.agents.judging.specifics import coverage

    shares = {row: coverage(row.question, row.gold, row.text).share for row in replies if row.accepted}
    yield "least share" + "".join(f"{name:>24}" for name in HALVES)
    for least in SHARES:
        cells = []
        below = {row for row, share in shares.items() if share < least}
        for name in HALVES:
            figures = measure(of_half(replies, name), below.__contains__)
            cells.append(f"{100 * figures.vague_left:13.1f}, {100 * figures.right_disputed:4.1f} right")
        yield f"{least:11.2f}" + "".join(f"{cell:>24}" for cell in cells)


def main() -> int:
    if not (SHARED / "replies.json").exists():
        print(f"no LoCoMo replies in {SHARED}: EMEND_SHARED names another folder")
        return 1
    replies, failed = read_replies(), False
    for name in HALVES:
        figures = measure(of_half(replies, name), disputed_by_words)
        failed |= figures.vague_left > VAGUE_LEFT or figures.right_disputed > RIGHT_DISPUTED
        print(name)
        for kind, (n, accepted, disputed) in figures._asdict().items():
            left = 100 * (accepted - disputed) / n
            print(f"  {kind:9} n {n}, accepted {accepted}, disputed {disputed}, left {left:.1f}%")
        print(f"  of the right ones disputed: {100 * figures.right_disputed:.1f}%")
    for file in sorted(ANSWERS.glob("evouna_*.json")):
        rows = [row for row in read_labelled(file) if row.text]
        right, wrong = ([row for row in rows if row.accepted == label] for label in (True, False))
        shares = [100 * sum(map(disputed_by_words, part)) / len(part) for part in (right, wrong)]
        print(f"{file.stem}: of {len(right)} right {shares[0]:.1f}%, of {len(wrong)} wrong {shares[1]:.1f}%")
    print("\nvague wrong answers left accepted, and right ones disputed, in %")
    print("\n".join(curve(replies)))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
