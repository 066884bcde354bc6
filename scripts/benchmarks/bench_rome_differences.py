"""ROME beside a plain loop of the published algorithm, on a real model: the same facts, contexts and settings.

    python scripts/benchmarks/bench_rome_differences.py --model hf:FOLDER --data FILE --facts 10

FILE is a flat list of CounterFact's facts, as EasyEdit has them. The plain loop follows ROME's paper and EasyEdit's
settings: one fact at a time, whole prompts through the whole model at every step, token ids of its own, the identity in
place of the covariance. The contexts are those that Emend samples. Shown are the relative difference of the matrix's
change, and how many facts have ES, PS and NS under either, with Wilson's intervals.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import kl_div

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.agents.llm import load_model
from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import EditorContext
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.parametric.rome import Rome
from emend.evals.metrics.estimate import estimate
from emend.memory.edit import Edit, Triplet
from scripts.benchmarks.bench_editors import hooked

SCORES = ("ES", "PS", "NS")


class Row(NamedTuple):
    """Token ids of a prompt with its target but for the last token, the subject's last place, and the target's ids."""

    ids: list[int]
    subject: int
    target: list[int]


class PlainRome:
    """ROME as the published code goes about it; `settings` are those of the editor."""

    def __init__(self, lm: CausalLM, settings: Any, layer: int, path: str, prefixes: tuple[str, ...]) -> None:
        self.lm, self.settings, self.prefixes = lm, settings, prefixes
        self.module: Any = lm.model.get_submodule(path)
        self.layer = layer

    def change(self, edit: Edit) -> Tensor:
        """The change of the matrix, shape (outputs, inputs), float64: Lambda u^T with u = k* / |k*|."""
        rows = [self.row(prefix, edit.prompt, edit) for prefix in self.prefixes]
        keys = self.keys(rows)
        direction = keys.mean(0) / keys.mean(0).norm()
        weight = self.module.weight.detach().double()
        bias = 0.0 if self.module.bias is None else self.module.bias.detach().double()
        written = self.value(edit, rows) - weight @ keys[0] - bias
        return torch.outer(written / (keys[0] @ direction), direction)

    def value(self, edit: Edit, rows: list[Row]) -> Tensor:
        """The value v* after Adam's steps (ROME, eq. 4)."""
        plan, essence = self.settings, self.row("", "{} is a", edit)
        essence = essence._replace(ids=essence.ids[: len(self.ids(f"{edit.subject} is a"))])
        ids, mask = padded([*rows, essence])
        lines, places = torch.arange(len(rows) + 1), torch.tensor([row.subject for row in (*rows, essence)])
        delta = torch.zeros(self.module.weight.shape[0], requires_grad=True)
        optimizer = torch.optim.Adam([delta], lr=plan.v_lr)
        before, value = torch.zeros(0), torch.zeros(0)

        def add(states: Tensor) -> Tensor:
            return states.index_put((lines, places), delta.expand(len(lines), -1), accumulate=True)

        for step in range(plan.v_num_grad_steps):
            with hooked(self.module, add) as outputs:
                logs = self.lm.model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
            of_essence = logs[-1, essence.subject]
            if not step:
                before, value = of_essence.detach(), outputs[0][0, rows[0].subject].detach()
            losses = []
            for number, row in enumerate(rows):
                scored = logs[number, len(row.ids) - len(row.target) : len(row.ids)]
                losses.append(-scored.gather(1, torch.tensor(row.target)[:, None]).mean())
            drift = plan.kl_factor * kl_div(before, of_essence, log_target=True, reduction="sum")
            loss = torch.stack(losses).mean() + drift + plan.v_weight_decay * delta.norm() / value.norm() ** 2
            if loss < plan.stop_loss or step == plan.v_num_grad_steps - 1:
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                delta.mul_((plan.clamp_norm_factor * value.norm() / delta.norm()).clamp(max=1.0))
        return (value + delta).detach().double()

    def keys(self, rows: list[Row]) -> Tensor:
        """Keys at the subject's last token of each row, shape (rows, inputs), float64."""
        ids, mask = padded(rows)
        inputs: list[Tensor] = []
        handle = self.module.register_forward_pre_hook(lambda _, entering: inputs.append(entering[0]))
        with torch.no_grad():
            self.lm.model(input_ids=ids, attention_mask=mask)
        handle.remove()
        return inputs[0][torch.arange(len(rows)), torch.tensor([row.subject for row in rows])].double()

    def row(self, prefix: str, prompt: str, edit: Edit) -> Row:
        """A prompt after a prefix; the subject ends where the tokens of the text up to it end."""
        text = prefix + prompt.replace("{}", edit.subject)
        target = self.ids(f"{text} {edit.target_new}")[len(self.ids(text)) :]
        to_subject = prefix + prompt[: prompt.index("{}")] + edit.subject
        return Row(self.ids(text) + target[:-1], len(self.ids(to_subject)) - 1, target)

    def ids(self, text: str) -> list[int]:
        """Token ids of a text."""
        return list(self.lm.tokenizer(text)["input_ids"])


def padded(rows: list[Row]) -> tuple[Tensor, Tensor]:
    """Right-padded ids and mask."""
    width = max(len(row.ids) for row in rows)
    ids = torch.tensor([row.ids + [0] * (width - len(row.ids)) for row in rows])
    return ids, torch.tensor([[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in rows])


def successes(lm: CausalLM, fact: dict[str, Any]) -> list[bool]:
    """ES, PS and NS of a fact under the weights as they are."""
    new, true = fact["target_new"], fact["ground_truth"]
    prompts = [fact["prompt"], fact["rephrase_prompt"], fact["locality_prompt"]]
    logs = [score.log_prob for score in lm.log_probs([(prompt, each) for prompt in prompts for each in (new, true)])]
    own, rephrased, near = list(pairwise(logs))[::2]
    return [own[0] > own[1], rephrased[0] > rephrased[1], near[1] > near[0]]


def under(module: Any, change: Tensor, measure: Callable[[], list[bool]]) -> list[bool]:
    """The measurement while a change is in the matrix."""
    before = module.weight.detach().clone()
    try:
        with torch.no_grad():
            module.weight.copy_((before.double() + change).to(before.dtype))
        return measure()
    finally:
        with torch.no_grad():
            module.weight.copy_(before)


def edit_of(fact: dict[str, Any]) -> Edit:
    """The edit of a fact."""
    prompt = fact["prompt"].replace(fact["subject"], "{}", 1)
    return Edit.from_triplet(Triplet(subject=fact["subject"], relation="", object=fact["target_new"]), prompt)


def share(values: list[bool]) -> str:
    """A share in percent with its interval."""
    value = estimate([float(each) for each in values], list(range(len(values)))).scaled(100)
    low, high = (f"{end:.0f}" if end is not None else "-" for end in (value.low, value.high))
    return f"{value.mean:.0f} [{low}, {high}]"


def main() -> None:
    """Edit every fact both ways, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--facts", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--contexts", default="[[5, 10], [10, 10]]", help="tokens and count of sampled contexts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_device(arguments.device)
    model: Any = load_model(arguments.model, device=arguments.device, dtype="float32")
    settings = {"covariance": "identity", "context_template_length_params": json.loads(arguments.contexts)}
    rome = Rome(EditorContext(model=model, settings=settings))
    lm, (layer,) = rome.lm, rome.layers
    path = rome.paths.of_layer(layer, "down_projection")
    lm.model.requires_grad_(False)  # the change alone is optimised
    plain = PlainRome(lm, rome.settings, layer, path, rome.prefixes)
    facts = [
        fact
        for fact in json.loads(arguments.data.read_text(encoding="utf-8"))
        if fact["subject"] in fact["prompt"] and plain.row("", edit_of(fact).prompt, edit_of(fact)).subject
    ][: arguments.facts]  # without subjects at position 0, of which some settings make an exception
    outcomes: dict[str, list[list[bool]]] = {"unedited": [], "plain": [], "emend": []}
    farthest = 0.0
    for fact in facts:
        edit = edit_of(fact)
        theirs, delta = plain.change(edit), rome.solve([edit])[f"{path}.weight"]
        assert isinstance(delta, LowRankDelta)
        ours = delta.left.double() @ delta.right.double()
        difference = float((ours - theirs).norm() / theirs.norm())
        farthest = max(farthest, difference)
        outcomes["unedited"].append(successes(lm, fact))
        for name, change in (("plain", theirs), ("emend", ours)):
            outcomes[name].append(under(plain.module, change, partial(successes, lm, fact)))
        print(f"{edit.subject}: relative difference {difference:.1e}", flush=True)
    for name, rows in outcomes.items():
        columns = zip(SCORES, zip(*rows, strict=True), strict=True)
        print(f"{name}: " + "  ".join(f"{score} {share(list(values))}" for score, values in columns))
    print(f"facts {len(facts)}, layer {layer}, contexts {len(rome.prefixes)}, farthest {farthest:.1e}")


if __name__ == "__main__":
    main()
