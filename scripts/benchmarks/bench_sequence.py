"""What a long sequence of single edits does to a model: one curve per method, on the embedded model.

    python scripts/benchmarks/bench_sequence.py --edits 200 --methods rome r_rome memit alphaedit

Counterfactual edits of the invented world are written one on top of the other. At each checkpoint: whether the latest
edits took (efficacy), whether all earlier ones still stand (kept), whether like facts of other subjects, none of them
edited, stay what they were (neighborhood), and the perplexity of texts of the world that no edit touches.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.agents.llm import load_model
from emend.agents.local.causal_lm import CausalLM
from emend.agents.tiny.world import World, relations
from emend.editors.base import EditorContext
from emend.editors.registry import EDITORS
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.edit import Edit
from scripts.benchmarks.tiny_card.edits import counterfactual

CHECKPOINTS = (1, 10, 25, 50, 100, 150, 200, 300, 400)
LATEST = 25
NEIGHBORS = 150
TEXTS = 60


class Point(NamedTuple):
    """The measures after so many edits."""

    edits: int
    efficacy: Estimate
    kept: Estimate
    neighborhood: Estimate
    perplexity: float


class Material(NamedTuple):
    """What is edited and asked: the same for every method."""

    edits: list[Edit]
    neighbors: list[tuple[str, str]]
    texts: list[str]


def draw(count: int, seed: int) -> Material:
    """Edits of distinct facts; neighbors and texts are about subjects that no edit names."""
    world, rng = World(), random.Random(seed)
    chosen = rng.sample(world.facts, count)
    edits = [counterfactual(world, rng, fact) for fact in chosen]
    touched = {edit.subject for edit in edits}
    rest = [fact for fact in world.facts if fact.subject not in touched]
    table = relations()
    near = [
        (table[fact.relation].statements[0].replace("{}", fact.subject), fact.object)
        for fact in rng.sample(rest, min(NEIGHBORS, len(rest)))
    ]
    told = [
        f"{table[fact.relation].statements[2].replace('{}', fact.subject)} {fact.object}."
        for fact in rng.sample(rest, min(TEXTS, len(rest)))
    ]
    return Material(edits, near, told)


def curve(model: Any, method: str, material: Material, settings: dict[str, Any]) -> list[Point]:
    """One method's points; the model is as it was afterwards."""
    editor: Any = EDITORS.load(method)(EditorContext(model=model, settings=settings))
    points: list[Point] = []
    with editor.sequence() as grow:
        for count, edit in enumerate(material.edits, 1):
            grow([edit])
            if count in CHECKPOINTS or count == len(material.edits):
                points.append(measure(model.lm, material, count))
    return points


def measure(lm: CausalLM, material: Material, count: int) -> Point:
    """The measures with the first `count` edits standing."""
    stands = [(edit.cloze, edit.target_new) for edit in material.edits[:count]]
    right = said(lm, stands)
    latest, earlier = right[-LATEST:], right[:-1] or right
    scored = lm.log_probs([("", text) for text in material.texts])
    nats = sum(told.log_prob for told in scored) / sum(told.target_tokens for told in scored)
    return Point(
        count,
        estimate(latest, list(range(len(latest)))),
        estimate(earlier, list(range(len(earlier)))),
        estimate(near := said(lm, material.neighbors), list(range(len(near)))),
        math.exp(-nats),
    )


def said(lm: CausalLM, asked: Sequence[tuple[str, str]]) -> list[float]:
    """1.0 where the model goes on with the answer."""
    replies = lm.generate([prompt for prompt, _ in asked], max_new_tokens=8, stop=("\n", "."))
    return [float(told.text.strip() == answer) for told, (_, answer) in zip(replies, asked, strict=True)]


def show(console: Console, curves: dict[str, list[Point]]) -> None:
    """One table: percent with n and 95% intervals, perplexity as it is."""
    table = Table(title="edits written one on top of the other (percent, 95% interval)")
    for name in ("method", "edits", f"efficacy, latest {LATEST}", "kept, all earlier", "neighborhood", "perplexity"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, points in curves.items():
        for point in points:
            shares = [_share(value) for value in (point.efficacy, point.kept, point.neighborhood)]
            table.add_row(method, str(point.edits), *shares, f"{point.perplexity:,.2f}")
        table.add_section()
    console.print(table)


def _share(value: Estimate) -> str:
    if value.mean is None:
        return "unscored"
    if value.low is None or value.high is None:
        return f"{100 * value.mean:.0f} n {value.n}"
    return f"{100 * value.mean:.0f} [{100 * value.low:.0f}, {100 * value.high:.0f}] n {value.n}"


def main() -> None:
    """Measure, print, and keep the points as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--methods", nargs="+", default=["rome", "r_rome", "memit", "alphaedit"])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--set", dest="settings", default="{}", help="settings of every method, as JSON")
    parser.add_argument("--json", type=Path, help="where the points are written")
    chosen = parser.parse_args()
    model, material = load_model(chosen.model), draw(chosen.edits, chosen.seed)
    curves: dict[str, list[Point]] = {}
    for method in chosen.methods:
        began = time.process_time()
        curves[method] = curve(model, method, material, json.loads(chosen.settings))
        print(f"{method}: {(time.process_time() - began) / chosen.edits:.2f} CPU s per edit", file=sys.stderr)
    if chosen.json:
        told = {
            name: [
                point._asdict()
                | {"efficacy": point.efficacy.mean, "kept": point.kept.mean, "neighborhood": point.neighborhood.mean}
                for point in points
            ]
            for name, points in curves.items()
        }
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    show(Console(), curves)


if __name__ == "__main__":
    main()
