"""Measure the scorer of answer equivalence: accuracy, wrong acceptances, calibration and cost.

    python -m scripts.benchmarks.check_equivalence [--data FOLDER] [--vectors FOLDER] [--lexical]

EVOUNA by cross-validation over questions; NQ301 with trees that saw none of its questions; LoCoMo's replies with the
shipped weights, which were never trained or tuned on it. `--data` has the folders `answers` and `locomo`.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.equivalence.features import feature_table
from emend.evals.metrics.equivalence.rows import RepliedQuestion
from emend.evals.metrics.equivalence.scorer import THRESHOLD, EquivalenceScorer, load_equivalence
from emend.memory.embeddings.embed import Embedding, load_embedding
from scripts.equivalence.examples import question_key
from scripts.equivalence.fitting import calibrate, calibrated_left_out, fit_trees, left_out_log_odds
from scripts.equivalence.rates import rates_by_set, reliability
from scripts.equivalence.train import SHARED, training_examples, training_sample

THRESHOLDS = (0.5, 0.55, 0.6, THRESHOLD, 0.7, 0.75, 0.8)


class Reply(NamedTuple):
    """A row of LoCoMo's replies: its run, and what most of the judge's verdicts say."""

    row: RepliedQuestion
    run: str
    accepted: bool


def nq301(folder: Path) -> tuple[list[RepliedQuestion], NDArray[np.bool_]]:
    """Return the rows of NQ301 and people's labels."""
    items = json.loads((folder / "nq301.json").read_text(encoding="utf-8"))
    rows = [RepliedQuestion(item["question"], tuple(item["golds"]), item["reply"]) for item in items]
    return rows, np.asarray([bool(item["right"]) for item in items])


def locomo(folder: Path) -> list[Reply]:
    """Return LoCoMo's replies but those to questions whose gold is wrong."""
    errors = json.loads((folder / "gold_errors.json").read_text(encoding="utf-8"))
    wrong = {item["question_id"] for item in errors}
    items = json.loads((folder / "replies.json").read_text(encoding="utf-8"))
    return [_locomo_reply(item) for item in items if item["question_id"] not in wrong]


def _locomo_reply(item: dict[str, Any]) -> Reply:
    row = RepliedQuestion(item["question"], (str(item["gold"]),), item["reply"])
    return Reply(row, item["run"], sum(item["verdicts"]) >= 2)


def acceptance(replies: Sequence[Reply], probabilities: NDArray[np.float64]) -> dict[str, float]:
    """Return the shares of LoCoMo's replies that the threshold accepts, by group."""
    groups: dict[str, Callable[[Reply], bool]] = {
        "honest, judged right": lambda reply: "wrong" not in reply.run and reply.accepted,
        "honest, judged wrong": lambda reply: "wrong" not in reply.run and not reply.accepted,
        "wrong-vague": lambda reply: reply.run == "wrong-vague",
        "wrong-specific": lambda reply: reply.run == "wrong-specific",
    }
    accepted = probabilities >= THRESHOLD
    return {name: float(accepted[[is_in(reply) for reply in replies]].mean()) for name, is_in in groups.items()}


def check_labelled(answers: Path, embedding: Embedding | None) -> None:
    """Print the figures on EVOUNA and NQ301."""
    examples, labelled = training_examples(answers)
    sample = training_sample(examples, labelled, embedding)
    odds = left_out_log_odds(sample)
    probabilities = calibrated_left_out(odds, sample)
    right = sample.right[sample.labelled]
    sets = [example.source for example in examples[: len(right)]]
    for threshold in THRESHOLDS:
        _print_rates(f"EVOUNA at {threshold}", rates_by_set(probabilities, right, sets, threshold))
    for size, probability, share in reliability(probabilities, right):
        print(f"  {size:5d} replies of probability {probability:.3f}: {share:.3f} right")
    rows, right = nq301(answers)
    keys = {question_key(row.question) for row in rows}
    others = [question_key(example.row.question) not in keys for example in examples]
    slope, offset = calibrate(odds[sample.labelled], sample.right[sample.labelled])
    trees = replace(fit_trees(sample, np.asarray(others)), slope=slope, offset=offset)
    probabilities = trees.probabilities(feature_table(rows, embedding)[1])
    for threshold in THRESHOLDS:
        rates = rates_by_set(probabilities, right, ["nq301"] * len(rows), threshold)
        _print_rates(f"NQ301 at {threshold}", rates)


def _print_rates(title: str, rates: dict[str, float]) -> None:
    print(title, ", ".join(f"{name} {100 * value:.2f}" for name, value in rates.items()), flush=True)


def check_shipped(data: Path, scorer: EquivalenceScorer) -> None:
    """Print the figures of the shipped weights on LoCoMo's replies, and their cost."""
    replies = locomo(data / "locomo")
    start = time.process_time()
    probabilities = scorer.probabilities([reply.row for reply in replies])
    cost = time.process_time() - start
    _print_rates("LoCoMo, accepted:", acceptance(replies, probabilities))
    print(f"  {len(replies)} replies in {cost:.1f} CPU s with what of their vectors was kept")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--vectors", type=Path, help="folder in which vectors are kept")
    parser.add_argument("--lexical", action="store_true", help="the weights without an encoder")
    arguments = parser.parse_args()
    embedding = None if arguments.lexical else load_embedding("minilm", arguments.vectors)
    check_shipped(arguments.data, load_equivalence(embedding))
    check_labelled(arguments.data / "answers", embedding)


if __name__ == "__main__":
    main()
