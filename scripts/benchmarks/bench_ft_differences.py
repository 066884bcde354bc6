"""What could set fine-tuned weights apart from another implementation's: one deviation at a time, and how far it leads.

    python scripts/benchmarks/bench_ft_differences.py

A plain loop trains one down-projection of a random GPT-2 (6 layers, width 256) as FT-L and as FT-M on one edit and on
four: 25 steps of Adam at 5e-4. Each line changes one thing in it; the figure is the norm of the difference of the
matrix's changes, in percent of the norm of Emend's change. The first line is the loop as it should be: rounding alone.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.parametric.finetune import FineTuning, training_rows
from scripts.benchmarks.bench_editors import FT, edits, make_model

PATH = "transformer.h.2.mlp.c_proj"


@dataclass(frozen=True)
class Loop:
    """A training as the published code has it, but for what is changed."""

    bias: bool = True
    bound: float = 0.0
    weight_decay: float = 0.0
    decoupled: bool = False
    rows_of_a_step: int = 0
    whole_text: bool = False
    tokens_weigh_alike: bool = False
    dropout: bool = False
    stop: float = 0.0
    steps: int = 25
    eps: float = 1e-8
    spaced: bool = True
    end_token: bool = False


DEVIATIONS = {
    "none": Loop(),
    "the bias is left out": Loop(bias=False),
    "bound of 5e-4 (norm_constraint), where the other has none": Loop(bound=5e-4),
    "weight decay of 1e-2 in the gradient": Loop(weight_decay=1e-2),
    "AdamW with its usual weight decay of 1e-2": Loop(weight_decay=1e-2, decoupled=True),
    "steps of one edit, one after another (batch_size 1)": Loop(rows_of_a_step=1),
    "the prompt is learnt too (no mask)": Loop(whole_text=True),
    "an end token is learnt after the target": Loop(end_token=True),
    "mean over all tokens, not over edits": Loop(tokens_weigh_alike=True),
    "dropout of 0.1 is active (training mode)": Loop(dropout=True),
    "stop at a loss below 1e-2": Loop(stop=1e-2),
    "one step fewer": Loop(steps=24),
    "Adam's eps 1e-6": Loop(eps=1e-6),
    "no space before the target": Loop(spaced=False),
}


def plain(folder: Path, loop: Loop, at_end: bool, count: int) -> Tensor:
    """The change of the matrix."""
    model: Any = load_model(f"hf:{folder}", device="cpu", dtype="float32")
    lm, module = model.lm, model.lm.model.get_submodule(PATH)
    rows = [_row(lm, edit, loop, at_end) for edit in edits(count)]
    leaves = [module.weight, module.bias] if loop.bias else [module.weight]
    before = [leaf.detach().clone() for leaf in leaves]
    kind = torch.optim.AdamW if loop.decoupled else torch.optim.Adam
    optimizer = kind(leaves, lr=5e-4, weight_decay=loop.weight_decay, eps=loop.eps)
    lm.model.train(loop.dropout)
    torch.manual_seed(0)
    size = loop.rows_of_a_step or len(rows)
    for _ in range(loop.steps):
        history = []
        for start in range(0, len(rows), size):
            optimizer.zero_grad()
            each = [_token_losses(lm, row, at_end) for row in rows[start : start + size]]
            loss = (
                torch.cat(each).mean() if loop.tokens_weigh_alike else torch.stack([one.mean() for one in each]).mean()
            )
            history.append(loss.item())
            if loss.item() >= loop.stop:
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                for leaf, origin in zip(leaves, before, strict=True):
                    leaf.clamp_(origin - loop.bound, origin + loop.bound) if loop.bound else None
        if sum(history) / len(history) < loop.stop:
            break
    change: Tensor = module.weight.detach() - before[0]
    return change


def _row(lm: Any, edit: Any, loop: Loop, at_end: bool) -> tuple[tuple[int, ...], int]:
    (row,) = training_rows(lm, [edit], "new_fact")
    ids, start = row.ids, row.start
    if not loop.spaced:
        ids = ids[:start] + tuple(lm.tokenizer(edit.target_new, add_special_tokens=False)["input_ids"])
    if loop.end_token:
        ids = (*ids, lm.tokenizer.eos_token_id)
    return ids, 1 if loop.whole_text and not at_end else start


def _token_losses(lm: Any, row: tuple[tuple[int, ...], int], at_end: bool) -> Tensor:
    ids, start = row
    inputs = ids[:start] if at_end else ids[:-1]
    logs: Tensor = lm.model(input_ids=torch.tensor([inputs])).logits[0].float().log_softmax(-1)
    tokens = torch.tensor(ids[start:])
    scored = logs[-1:].expand(len(tokens), -1) if at_end else logs[start - 1 :]
    return -scored.gather(1, tokens[:, None])[:, 0]


def emend(folder: Path, at_end: bool, count: int) -> Tensor:
    """The change that Emend's editor makes."""
    model: Any = load_model(f"hf:{folder}", device="cpu", dtype="float32")
    objective = "prompt_last" if at_end else "target_new"
    editor = FineTuning(EditorContext(model=model, settings=FT | {"objective_optimization": objective}))
    delta = editor.solve(edits(count))[f"{PATH}.weight"]
    assert isinstance(delta, Tensor)
    return delta


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deviations", type=int, help="how many of them, from the first; default: all")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = make_model(Path(name))
        cases = [(at_end, count) for at_end in (True, False) for count in (1, 4)]
        ours = {case: emend(folder, *case) for case in cases}
        print("percent of the change: FT-L 1 edit, FT-L 4 edits, FT-M 1 edit, FT-M 4 edits")
        for title, loop in islice(DEVIATIONS.items(), chosen.deviations):
            apart = [(plain(folder, replace(loop), *case) - ours[case]).norm() / ours[case].norm() for case in cases]
            print(f"{title}: {', '.join(f'{100 * share:.2g}' for share in apart)}", flush=True)


if __name__ == "__main__":
    main()
