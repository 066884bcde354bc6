"""CPU seconds per edit: Emend beside the published algorithms written plainly, in one run on one model.

    python scripts/benchmarks/bench_editors.py --edits 20

The model is made on the spot: GPT-2's architecture, 6 layers of width 256, 8,192 rows in the head, random weights, so
that every search takes all its steps. One thread, float32. The plain form edits one fact at a time with whole prompts
through the whole model, as the published code does.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # scipy's, which torch does not hear of; read when it is loaded

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from emend.agents.llm import load_model
from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import EditorContext
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import collect_covariance
from emend.editors.numerics.locate import Located, locate, locate_essence
from emend.editors.parametric.finetune import FineTuning, training_rows
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.edit import Edit, Triplet

SHORT = ("The river", "Therefore it", "Because they", "I think", "You know")
LONG = ("was long and the people of the town", "came back to the old house by the sea")
PREFIXES = tuple(f"{SHORT[n % 5]} {LONG[n % 2] if n >= 10 else 'was there'}. " for n in range(20))
ROME = {
    "layers": [2],
    "v_num_grad_steps": 20,
    "v_lr": 0.5,
    "kl_factor": 0.0625,
    "v_weight_decay": 1e-3,
    "clamp_norm_factor": 4.0,
    "stop_loss": 0.0,
}
MEMIT = ROME | {"layers": [0, 1], "mom2_update_weight": 1000.0}
FT = {"layers": [2], "num_steps": 25, "lr": 5e-4, "stop_loss": 0.0}
AIMS = {"ROME": "0.8", "MEMIT": "0.3", "FT": "half of plain", "statistics": 1.3, "memory": 270}
"""CPU seconds per edit; six layers over one; MB above loading."""
FIRST = ("Ada", "Bo", "Cleo", "Dag", "Eno", "Fay", "Gus", "Hal", "Ida", "Jon")
LAST = ("Marlowe", "Sandoval", "Thistlewood", "Quimby")
CITIES = ("New Sandport", "Old Kestrel Bay", "Thornmere upon Wye", "Vell")


def corpus(texts: int) -> list[str]:
    """Short documents about the people of the edits."""
    return [
        f"{FIRST[n % 10]} {LAST[n % 4]} lives in {CITIES[n % 4]} and works at the {SHORT[n % 5].lower()} number {n}. "
        f"{LONG[n % 2].capitalize()}, {FIRST[(n + 3) % 10]} said, {LONG[(n + 1) % 2]}."
        for n in range(texts)
    ]


def edits(count: int) -> list[Edit]:
    """Counterfactual homes."""
    people = [f"{first} {last}" for last in LAST for first in FIRST][:count]
    return [
        Edit.from_triplet(Triplet(subject=name, relation="home", object=CITIES[n % 4]), "{} lives in the city of")
        for n, name in enumerate(people)
    ]


def make_model(folder: Path) -> Path:
    """A random model and a tokenizer of 8,192 rows, of which the corpus fills some hundreds."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(corpus(500) + list(PREFIXES), vocab_size=600, special_tokens=["</s>"], show_progress=False)
    bpe.save(str(folder / "raw.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "raw.json"), eos_token="</s>", bos_token="</s>")
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=8192, n_positions=256, n_embd=256, n_layer=6, n_head=8, bos_token_id=0, eos_token_id=0)
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Plain:
    """ROME and MEMIT as the published code goes about them: one edit, whole prompts, whole model, every step."""

    def __init__(self, lm: CausalLM) -> None:
        self.lm, self.model = lm, lm.model

    def module(self, layer: int) -> Any:
        """The down-projection."""
        return self.model.get_submodule(f"transformer.h.{layer}.mlp.c_proj")

    def value(self, edit: Edit, prefixes: tuple[str, ...], layer: int, at: str, plan: dict[str, Any]) -> Tensor:
        """The value v* (or z*) of one edit."""
        rows = [*locate(self.lm, edit, prefixes), locate_essence(self.lm, edit)]
        ids, mask = padded(rows)
        lines, subjects = torch.arange(len(rows)), torch.tensor([row.subject for row in rows])
        where = self.module(layer) if at == "mlp" else self.model.get_submodule(f"transformer.h.{layer}")
        delta = torch.zeros(256, requires_grad=True)
        optimizer = torch.optim.Adam([delta], lr=plan["v_lr"])
        kept: Tensor | None = None
        value = torch.zeros(256)
        for step in range(plan["v_num_grad_steps"]):
            with hooked(where, lambda out: out.index_put((lines, subjects), delta.expand(len(rows), -1), True)) as seen:
                logits = self.model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
            essence = logits[-1, rows[-1].subject]
            if kept is None:
                kept, value = essence.detach(), seen[0][0, rows[0].subject].detach()
            losses = [
                -logits[n, row.target - 1 : len(row.ids) - 1]
                .gather(1, torch.tensor(row.ids[row.target :])[:, None])
                .mean()
                for n, row in enumerate(rows[:-1])
            ]
            drift = kl_div(kept, essence, log_target=True, reduction="sum")
            loss = (
                torch.stack(losses).mean()
                + plan["kl_factor"] * drift
                + plan["v_weight_decay"] * delta.norm() / value.norm() ** 2
            )
            if step == plan["v_num_grad_steps"] - 1:
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                delta.mul_((plan["clamp_norm_factor"] * value.norm() / delta.norm()).clamp(max=1.0))
        return (value + delta).detach()

    def keys(self, edit: Edit, prefixes: tuple[str, ...], layer: int) -> Tensor:
        """Keys of one edit, one per prefix, by a whole pass."""
        rows = locate(self.lm, edit, prefixes)
        ids, mask = padded(rows)
        seen: list[Tensor] = []
        handle = self.module(layer).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        with torch.no_grad():
            self.model(input_ids=ids, attention_mask=mask)
        handle.remove()
        return seen[0][torch.arange(len(rows)), torch.tensor([row.subject for row in rows])]

    def rome(self, every: list[Edit], moment: Tensor, plan: dict[str, Any]) -> list[Tensor]:
        """Values, one edit after another, each with its outer product computed."""
        values = []
        for edit in every:
            layer = plan["layers"][0]
            values.append(self.value(edit, ("", *PREFIXES), layer, "mlp", plan))
            keys = self.keys(edit, ("", *PREFIXES), layer)
            direction = torch.linalg.solve(moment, keys.mean(0).double())
            bare = self.keys(edit, ("",), layer)[0].double()
            module = self.module(layer)
            now = bare @ module.weight.double() + module.bias.double()
            torch.outer(direction, (values[-1].double() - now) / (direction @ bare))
        return values

    def memit(self, every: list[Edit], moments: dict[int, Tensor], plan: dict[str, Any]) -> list[Tensor]:
        """Values one request at a time, then each layer by a direct solve with whole passes for keys and states."""
        prefixes, last = ("", *PREFIXES[10:15]), plan["layers"][-1]
        values = [self.value(edit, prefixes, last, "block", plan) for edit in every]
        for number, layer in enumerate(plan["layers"]):
            keys = torch.stack([self.keys(edit, prefixes, layer) for edit in every])
            averaged = ((keys[:, 0] + keys[:, 1:].mean(1)) / 2).double().T
            states = torch.stack([self.state(edit, last) for edit in every])
            left = (torch.stack(values) - states).double().T / (len(plan["layers"]) - number)
            update = (
                torch.linalg.solve(plan["mom2_update_weight"] * moments[layer] + averaged @ averaged.T, averaged)
                @ left.T
            )
            with torch.no_grad():
                self.module(layer).weight.add_(update.float())
        return values

    def fine_tuned(self, every: list[Edit], plan: dict[str, Any]) -> list[Tensor]:
        """The change of the matrix by fine-tuning it and its bias on each edit alone, whole passes (FT-M)."""
        module, changes = self.module(plan["layers"][0]), []
        for edit in every:
            (row,) = training_rows(self.lm, [edit], "")
            before = {name: weight.detach().clone() for name, weight in module.named_parameters()}
            for name, weight in self.model.named_parameters():
                weight.requires_grad_(".2.mlp.c_proj" in name)
            optimizer = torch.optim.Adam(module.parameters(), lr=plan["lr"])
            targets = torch.tensor(row.ids[row.start :])[:, None]
            for _ in range(plan["num_steps"]):
                logs = self.model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)[row.start - 1 : -1]
                optimizer.zero_grad()
                (-logs.gather(1, targets).mean()).backward()
                optimizer.step()
            changes.append(module.weight.detach() - before["weight"])
            module.load_state_dict(before)
        return changes

    def state(self, edit: Edit, layer: int) -> Tensor:
        """What leaves a block at the subject, by a whole pass."""
        (row,) = locate(self.lm, edit, [""])
        with torch.no_grad():
            out = self.model(input_ids=torch.tensor([row.ids]), output_hidden_states=True)
        found: Tensor = out.hidden_states[layer + 1][0, row.subject]
        return found


@contextmanager
def hooked(module: Any, change: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """The module's output passes through a function; the outputs before it are kept."""
    seen: list[Tensor] = []

    def hook(_: Any, __: Any, output: Any) -> Any:
        states = output[0] if isinstance(output, tuple) else output
        seen.append(states)
        return (change(states), *output[1:]) if isinstance(output, tuple) else change(states)

    handle = module.register_forward_hook(hook)
    try:
        yield seen
    finally:
        handle.remove()


def padded(rows: list[Located]) -> tuple[Tensor, Tensor]:
    """Right-padded ids and mask."""
    width = max(len(row.ids) for row in rows)
    ids = torch.tensor([[*row.ids, *[0] * (width - len(row.ids))] for row in rows])
    return ids, torch.tensor([[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in rows])


def timed(what: Callable[[], Any]) -> tuple[Any, float, float]:
    """What came of it, the CPU seconds, and how far peak memory rose, in MB."""
    before, began = peak(), time.process_time()
    told = what()
    return told, time.process_time() - began, peak() - before


def peak() -> float:
    """The process's largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def farthest(ours: Iterable[Tensor], theirs: list[Tensor]) -> float:
    """The largest relative difference of a value."""
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=20)
    parser.add_argument("--plain", type=int, help="how many of them the plain form does; default all")
    parser.add_argument("--texts", type=int, default=1000)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), edits(chosen.edits), chosen.plain or chosen.edits, corpus(chosen.texts))


def measure(folder: Path, every: list[Edit], plain: int, texts: list[str]) -> None:
    """The whole bench."""
    model: Any = load_model(f"hf:{make_model(folder)}", device="cpu")
    lm = model.lm
    loaded = peak()
    print(f"resident after loading: {loaded:.0f} MB", flush=True)
    # The statistics first: editors refuse to be made where they lack.
    paths = find_architecture(lm.model)
    _, one, _ = timed(lambda: collect_covariance(lm, paths, [5], texts, folder / "one"))
    _, six, rose = timed(lambda: collect_covariance(lm, paths, range(6), texts, folder / "stats"))
    told = f"one layer {one:.2f} CPU s, six layers {six:.2f}, ratio {six / one:.2f} (aim {AIMS['statistics']})"
    print(f"statistics: {told}, memory +{rose:.0f} MB", flush=True)
    statistics = str(folder / "stats")
    rome = Rome(EditorContext(model=model, settings=ROME | {"prefixes": PREFIXES, "covariance": statistics}))
    memit = Memit(EditorContext(model=model, settings=MEMIT | {"prefixes": PREFIXES[10:15], "covariance": statistics}))
    ours: dict[str, tuple[Iterable[Tensor], float]] = {
        "ROME": _ours(rome, partial(_solve_each, rome), every, plain),
        "MEMIT": _ours(memit, memit.solve, every, plain),
        "FT": _fine_tuned(FineTuning(EditorContext(model=model, settings=FT)), every, plain),
    }
    print(
        f"Emend's peak above loading, statistics and edits: +{peak() - loaded:.0f} MB (aim {AIMS['memory']})",
        flush=True,
    )
    moments = {layer: rome.covariance.matrix(layer, 1024) for layer in range(6)}
    for name, theirs in (
        ("ROME", lambda: Plain(lm).rome(every[:plain], moments[2], ROME)),
        ("FT", lambda: Plain(lm).fine_tuned(every[:plain], FT)),
        ("MEMIT", lambda: Plain(lm).memit(every[:plain], moments, MEMIT)),  # writes to the model, so it is last
    ):
        values, slow, _ = timed(theirs)
        wanted, fast = ours[name]
        print(
            f"{name}({len(every)}): plain {slow / plain:.3f} CPU s per edit, Emend {fast:.3f} (aim {AIMS[name]}), "
            f"ratio {slow / plain / fast:.1f}, values differ by {farthest(wanted, values):.1e} at most",
            flush=True,
        )


def _solve_each(editor: Any, every: list[Edit]) -> None:
    """Each edit alone, with the values of all searched for together."""
    editor.presolve([[edit] for edit in every])
    for edit in every:
        editor.solve([edit])


def _ours(editor: Any, solve: Callable[[list[Edit]], Any], every: list[Edit], plain: int) -> tuple[Tensor, float]:
    """The values of the edits that the plain form does too, and the CPU seconds per edit of all."""
    editor.solve(every[:1])  # reads the factors of the statistics, and warms up
    found = editor.search(every[:plain])
    _, fast, _ = timed(partial(solve, every))
    return found.value + found.change, fast / len(every)


def _fine_tuned(editor: Any, every: list[Edit], plain: int) -> tuple[list[Tensor], float]:
    """The changes of the matrix by the edits that the plain form does too, and the CPU seconds per edit of all."""
    editor.solve(every[:1])
    _, fast, _ = timed(partial(_solve_each, editor, every))
    return [editor.solve([edit])["transformer.h.2.mlp.c_proj.weight"] for edit in every[:plain]], fast / len(every)


if __name__ == "__main__":
    main()
