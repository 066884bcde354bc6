"""The evaluation card of the embedded model: its measured abilities, each figure with n and a 95% interval.

`python -m scripts.benchmarks.tiny_card` measures the shipped model, `--model DIR` another one; `--write` stores the
card there.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from emend.agents.local.causal_lm import CausalLM
from emend.agents.tiny import model_folder, seal
from emend.agents.tiny.world import World
from emend.evals.metrics.estimate import Estimate, estimate
from scripts.benchmarks.tiny_card.chains import chain_items, run_chains
from scripts.benchmarks.tiny_card.edits import measure_rank_one
from scripts.benchmarks.tiny_card.questions import Item, Questions

CARD_FILE = "card.json"


def accuracy(lm: CausalLM, items: Iterator[Item]) -> Estimate:
    """Share of items whose first generated line is the answer, greedy."""
    pairs = list(items)
    replies = lm.generate([prompt for prompt, _ in pairs], max_new_tokens=10, stop=("\n",))
    right = [float(reply.text.strip().rstrip(".") == answer) for reply, (_, answer) in zip(replies, pairs, strict=True)]
    return estimate(right, list(range(len(right))))


def measure(lm: CausalLM, seed: int = 17) -> dict[str, Estimate]:
    """All figures of the card, by name."""
    world = World()
    card = {name: accuracy(lm, items()) for name, items in Questions(world, seed).measures().items()}
    chains = chain_items(world, seed)
    for name, retriever in (("shipped retriever", "default"), ("right facts", None)):
        right = run_chains(lm, chains, retriever)
        card[f"two-hop chain, {name}"] = estimate(right, list(range(len(right))))
    efficacy, neighborhood = measure_rank_one(lm, seed)
    card["rank-one edit, efficacy"] = efficacy
    card["rank-one edit, neighborhood"] = neighborhood
    return card


def main() -> None:
    """Measure, print, and with --write store the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="model folder; default: the embedded one")
    parser.add_argument("--write", action="store_true", help=f"write {CARD_FILE} and the files' sums into the folder")
    chosen = parser.parse_args()
    folder = chosen.model or model_folder()
    card = measure(CausalLM(folder))
    rows = [{"measure": name, **value.model_dump()} for name, value in card.items()]
    for row in rows:
        print(f"{row['measure']:44s} {row['mean']:.3f}  [{row['low']:.3f}, {row['high']:.3f}]  n={row['n']}")
    if chosen.write:
        (folder / CARD_FILE).write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
        seal(folder)


if __name__ == "__main__":
    main()
