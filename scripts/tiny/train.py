"""Train the embedded model from scratch: `python -m scripts.tiny.train --out DIR`.

The schedule counts steps, never seconds, and every block of steps draws from its own seeded corpus, so an interrupted
run goes on exactly where its last checkpoint was written. 8,000 steps on the whole corpus are followed by a drill of
1,000 and by 800 on solved examples, each on the mix of that name and at a lower rate. On two free cores they take about
80 minutes, and about 60 with `--compile`. `--after DIR` does the last part alone.
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from emend.agents.tiny.world import World
from scripts.tiny.negatives import Negatives
from scripts.tiny.reasoning import Part, TrainingCorpus
from scripts.tiny.tokens import BOS, EOS, PAD, EncodedDocument, encode, train_tokenizer

LENGTHS = (10, 14, 18, 22, 28, 40, 64, 96, 140, 200, 280, 400, 511)
"""Documents are padded to the next of these and batched with their like."""


@dataclass(frozen=True)
class Schedule:
    """The hyperparameters, which together with the number of threads determine the result."""

    seed: int = 0
    steps: int = 8000
    block: int = 250
    """Steps between two checkpoints; each block has a separate corpus."""
    positions: int = 4096
    warm_up: int = 100
    decay_share: float = 0.4
    drill: int = 1000
    """Steps of the drill that follows, on the corpus' mix of that name."""
    drill_rate: float = 0.3
    """Factor on both learning rates at the drill's beginning."""
    examples: int = 800
    """Steps of the last part, which learns no prompts and starts from the saved model with new optimizers."""
    examples_rate: float = 0.15
    """Factor on both learning rates at the beginning of the last part."""
    muon_rate: float = 0.02
    adam_rate: float = 3e-3
    weight_decay: float = 0.1
    prompt_share: float = 0.12
    """Share of the tokens outside answers that are learnt at all."""
    prompt_weight: float = 0.25

    @property
    def ends(self) -> dict[Part, int]:
        """The step at which each part ends."""
        drilled = self.steps + self.drill
        return {"whole": self.steps, "drill": drilled, "examples": drilled + self.examples}

    def part(self, step: int) -> Part:
        """The part that the step belongs to."""
        return next((part for part, end in self.ends.items() if step < end), "examples")

    def rate(self, step: int) -> float:
        """Factor on both learning rates: linear warm-up, constant, linear decay to 0; again for each later part."""
        if (part := self.part(step)) != "whole":
            steps, top = (self.drill, self.drill_rate) if part == "drill" else (self.examples, self.examples_rate)
            within = step - (self.ends[part] - steps)
            return top * min(1.0, (within + 1) / self.warm_up, 1 - within / steps)
        left = (1 - step / self.steps) / self.decay_share
        return min(1.0, (step + 1) / self.warm_up, left)


class TokenBatch(NamedTuple):
    """Inputs (rows, length), and for the learnt positions: flat index, target id, weight."""

    inputs: Tensor
    places: Tensor
    targets: Tensor
    weights: Tensor


def build_model(seed: int) -> LlamaForCausalLM:
    """2.4 M parameters: 6 layers of 160, five heads of 32, tied embeddings, 512 positions."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=160,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=5,
        num_key_value_heads=5,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")  # the fused kernel's backward is slower on CPU at these sizes
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            depth = 2 * config.num_hidden_layers if name.endswith(("o_proj.weight", "down_proj.weight")) else 1
            std = 0.02 if "embed" in name else 0.5 / (weight.shape[1] * depth) ** 0.5
            torch.nn.init.normal_(weight, std=std)
    return model


def batches(
    world_corpus: TrainingCorpus, tokenizer: PreTrainedTokenizerFast, plan: Schedule, block: int
) -> Iterator[TokenBatch]:
    """Batches of documents of like length, `plan.positions` tokens each."""
    chance = np.random.default_rng((plan.seed, block))
    share = None if plan.part(block * plan.block) == "examples" else plan.prompt_share
    waiting: dict[int, list[EncodedDocument]] = defaultdict(list)
    while True:
        documents = [world_corpus.document() for _ in range(512)]
        for row in encode(tokenizer.backend_tokenizer, documents):
            size = len(row.ids) - 1
            if size > LENGTHS[-1]:
                continue
            length = next(limit for limit in LENGTHS if limit >= size)
            waiting[length].append(row)
            if len(waiting[length]) == max(4, plan.positions // length):
                yield _batch(waiting.pop(length), length, plan, chance, share)


def _batch(
    rows: list[EncodedDocument], length: int, plan: Schedule, chance: np.random.Generator, share: float | None
) -> TokenBatch:
    """Padded rows; a share of the other tokens is learnt, or with None each span with its own weight."""
    ids = np.full((len(rows), length + 1), PAD, dtype=np.int64)
    weights = np.zeros((len(rows), length + 1), dtype=np.float32)
    real = np.zeros((len(rows), length + 1), dtype=bool)
    for place, row in enumerate(rows):
        ids[place, : len(row.ids)] = row.ids
        weights[place, : len(row.ids)] = row.weights
        real[place, : len(row.ids)] = True
    weight, present = weights[:, 1:].ravel(), real[:, 1:].ravel()
    if share is not None:
        sampled = present & (chance.random(weight.size) < share)
        low = np.where(sampled, np.maximum(weight, plan.prompt_weight), 0.0)
        weight = np.where(weight >= 0.3, weight, low).astype(np.float32)
    places = np.nonzero(weight)[0]
    return TokenBatch(
        inputs=torch.from_numpy(ids[:, :-1].copy()),
        places=torch.from_numpy(places),
        targets=torch.from_numpy(ids[:, 1:].ravel()[places]),
        weights=torch.from_numpy(weight[places]),
    )


def _compiled(body: torch.nn.Module) -> Callable[..., Any]:
    """The model with a compiled graph for each length: the default limit is eight."""
    torch._dynamo.config.recompile_limit = 2 * len(LENGTHS)
    compiled: Callable[..., Any] = torch.compile(body, dynamic=False)
    return compiled


class Trainer:
    """Muon for the matrices, Adam for embeddings and norms, bfloat16 activations over float32 weights."""

    def __init__(self, out: Path, plan: Schedule, device: str = "cpu", compiled: bool = False) -> None:
        self.out, self.plan, self.step = out, plan, 0
        self.device = torch.device(device)
        self.world = World()
        self.negatives = Negatives(self.world)
        self.model = build_model(plan.seed)
        torch.nn.Module.to(self.model, self.device)
        self.body = _compiled(self.model.model) if compiled else self.model.model
        self.optimizers = self._optimizers()
        self.tokenizer = self._tokenizer()

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        plan, named = self.plan, list(self.model.named_parameters())
        matrices = [p for n, p in named if p.dim() == 2 and "embed" not in n]
        others = [p for n, p in named if p.dim() != 2 or "embed" in n]
        return [
            torch.optim.Muon(matrices, lr=plan.muon_rate, weight_decay=plan.weight_decay, momentum=0.95),
            torch.optim.AdamW(others, lr=plan.adam_rate, betas=(0.9, 0.98), weight_decay=0.01),
        ]

    def _tokenizer(self) -> PreTrainedTokenizerFast:
        if not (self.out / "tokenizer.json").exists():
            train_tokenizer(self.world, seed=7).save_pretrained(self.out)
        tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(self.out)
        return tokenizer

    def resume(self) -> None:
        """Resume from the last checkpoint, if there is one."""
        path = self.out / "checkpoint.pt"
        if path.exists():
            saved = torch.load(path, weights_only=True, map_location=self.device)
            self.model.load_state_dict(saved["model"])
            for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
                optimizer.load_state_dict(state)
            self.step = saved["step"]

    def save(self) -> None:
        """Write the checkpoint to a temporary file first, so that a kill leaves no partial one."""
        partial = self.out / "checkpoint.tmp"
        states = [optimizer.state_dict() for optimizer in self.optimizers]
        torch.save({"model": self.model.state_dict(), "optimizers": states, "step": self.step}, partial)
        partial.replace(self.out / "checkpoint.pt")

    def take(self, folder: Path) -> None:
        """Start the last part with the model of that folder, which has finished the drill."""
        self.model.load_state_dict(LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict())
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        self.step = self.plan.ends["drill"]

    def run(self) -> None:
        """Train to the end of the schedule, then write the Hugging Face folder."""
        for part, end in self.plan.ends.items():
            if part == "examples" and self.step == self.plan.ends["drill"]:
                self._begin_anew()
            self.run_to(end)
        self.model.bfloat16()
        self.model.save_pretrained(self.out)
        self.tokenizer.save_pretrained(self.out)

    def _begin_anew(self) -> None:
        """Round the weights as saved and drop the momentum, so that the last part can start from a saved model."""
        for weight in self.model.parameters():
            weight.data = weight.data.bfloat16().float()
        self.optimizers = self._optimizers()

    def run_to(self, end: int) -> None:
        """Train up to that step, with a checkpoint after every block."""
        started, first, smooth = time.monotonic(), self.step, 0.0
        while self.step < end:
            block = self.step // self.plan.block
            part = self.plan.part(self.step)
            corpus = TrainingCorpus(self.world, (self.plan.seed + 1) * 100_003 + block, self.negatives, part)
            stream = batches(corpus, self.tokenizer, self.plan, block)
            for _ in range(min(self.plan.block, end - self.step)):
                loss = self._learn(next(stream))
                smooth = loss if not smooth else 0.98 * smooth + 0.02 * loss
                if self.step % 50 == 0:
                    self._report(smooth, (self.step - first) / (time.monotonic() - started))
            self.save()

    def _learn(self, batch: TokenBatch) -> float:
        rate = self.plan.rate(self.step)
        for optimizer, base in zip(self.optimizers, (self.plan.muon_rate, self.plan.adam_rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
        batch = TokenBatch(*(part.to(self.device) for part in batch))
        with torch.autocast(self.device.type, torch.bfloat16):
            hidden = self.body(input_ids=batch.inputs, use_cache=False).last_hidden_state
            logits = self.model.lm_head(hidden.flatten(0, 1)[batch.places])
        losses = cross_entropy(logits.float(), batch.targets, reduction="none")
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return float(loss.detach())

    def _report(self, loss: float, speed: float) -> None:
        steps = self.plan.ends["examples"]
        left = (steps - self.step) / speed / 60
        print(
            f"step {self.step}/{steps}  loss {loss:.3f}  {speed * self.plan.positions:,.0f} positions/s"
            f"  {left:.0f} min left",
            flush=True,
        )


def main() -> None:
    """Read the arguments and train."""
    defaults = Schedule()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoint and model")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu", help="cpu (the shipped model's) or cuda")
    parser.add_argument("--after", type=Path, help="a model that has ended the drill: do the last part alone, from it")
    parser.add_argument(
        "--compile", action="store_true", help="compile the model first: a quarter faster, needs a C++ compiler"
    )
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    chosen.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(chosen.out, Schedule(seed=chosen.seed, steps=chosen.steps), chosen.device, chosen.compile)
    if chosen.after is not None:
        trainer.take(chosen.after)
    trainer.resume()
    trainer.run()


if __name__ == "__main__":
    main()
