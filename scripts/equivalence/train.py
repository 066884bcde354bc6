"""Train the scorers of answer equivalence that Emend ships, with MiniLM and without an encoder.

    python -m scripts.equivalence.train [--answers FOLDER] [--out FOLDER] [--vectors FOLDER]

It reads EVOUNA (`evouna_nq.json`, `evouna_tq.json`; Apache-2.0) from the folder `data/answers` that `EMEND_SHARED`
has, and adds examples made from it by rules. It reads no other data. Calibration and threshold come from replies to
questions left out (five folds).
"""

import argparse
import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from emend.evals.metrics.equivalence.features import feature_table
from emend.evals.metrics.equivalence.scorer import THRESHOLD, WEIGHTS
from emend.evals.metrics.equivalence.trees import BoostedTrees, Tree
from emend.memory.embeddings.embed import Embedding, load_embedding
from scripts.equivalence.examples import Example, evouna, made
from scripts.equivalence.fitting import (
    MADE_WEIGHT,
    SETTINGS,
    Sample,
    calibrate,
    calibrated_left_out,
    fit_trees,
    left_out_log_odds,
    sample_of,
)
from scripts.equivalence.rates import rates_by_set

SHARED = Path(os.environ.get("EMEND_SHARED", "../shared"))
FILES = ("evouna_nq.json", "evouna_tq.json")


def training_examples(answers: Path) -> tuple[list[Example], list[bool]]:
    """Return all examples, and a flag for each whether it was labelled by humans."""
    labelled, questions = evouna(answers)
    by_rules = made(questions)
    return [*labelled, *by_rules], [True] * len(labelled) + [False] * len(by_rules)


def training_sample(examples: Sequence[Example], labelled: Sequence[bool], embedding: Embedding | None) -> Sample:
    """Return the features of the examples."""
    names, table = feature_table([example.row for example in examples], embedding)
    return sample_of(examples, names, table, labelled)


def train(sample: Sample, sets: Sequence[str]) -> tuple[BoostedTrees, dict[str, float]]:
    """Return calibrated trees fitted to all rows, and their cross-validated rates."""
    odds = left_out_log_odds(sample)
    slope, offset = calibrate(odds[sample.labelled], sample.right[sample.labelled])
    trees = fit_trees(sample, np.ones(len(sample.table), bool))
    probabilities = calibrated_left_out(odds, sample)
    right = sample.right[sample.labelled]
    rates = rates_by_set(probabilities, right, sets, THRESHOLD)
    return replace(trees, slope=round(slope, 4), offset=round(offset, 4)), rates


def write_weights(path: Path, trees: BoostedTrees, entries: dict[str, Any]) -> None:
    """Write trees and their metadata as JSON, one tree per line."""
    lines = [json.dumps(_columns(tree)) for tree in trees.trees]
    numbers = {"bias": trees.bias, "slope": trees.slope, "offset": trees.offset}
    head = json.dumps(entries | {"features": trees.features} | numbers, indent=1)[:-2]
    body = ",\n".join(lines)
    path.write_text(f'{head},\n "trees": [\n{body}\n]\n}}\n', encoding="utf-8")


def _columns(tree: Tree) -> dict[str, list[float]]:
    return {name: getattr(tree, name).tolist() for name in tree.__dataclass_fields__}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, default=SHARED / "data" / "answers")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--vectors", type=Path, help="folder in which vectors are kept")
    arguments = parser.parse_args()
    examples, labelled = training_examples(arguments.answers)
    sets = [example.source for example, by_people in zip(examples, labelled, strict=True) if by_people]
    encoders = {"lexical": None, "minilm": load_embedding("minilm", arguments.vectors)}
    for name, embedding in encoders.items():
        trees, rates = train(training_sample(examples, labelled, embedding), sets)
        entries = _provenance(arguments.answers, examples) | {"name": name}
        entries["encoder"] = embedding.identity if embedding else ""
        entries["left out"] = {rate: round(value, 4) for rate, value in rates.items()}
        write_weights(arguments.out / f"{name}.json", trees, entries)


def _provenance(answers: Path, examples: Sequence[Example]) -> dict[str, Any]:
    digests = {file: hashlib.sha256((answers / file).read_bytes()).hexdigest() for file in FILES}
    return {
        "about": "answer equivalence: boosted trees; python -m scripts.equivalence.train",
        "data": {
            "source": "EVOUNA (Wang et al. 2023), github.com/wangcunxiang/QA-Eval, Apache-2.0",
            "files": digests,
            "examples": dict(Counter(example.source for example in examples)),
        },
        "settings": SETTINGS | {"weight of made examples": MADE_WEIGHT},
        "threshold": THRESHOLD,
    }


if __name__ == "__main__":
    main()
