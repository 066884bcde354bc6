"""GRACE (Hartvigsen et al. 2023): a codebook of keys and trained values beside one layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from emend.editors.numerics.seeded_draws import seeded_draws
from emend.editors.numerics.suffix_forward import PromptSplit, SuffixForward, compute_logits
from emend.editors.parametric.lifelong.layer_editor import LayerEditor, LayerSettings
from emend.editors.parametric.lifelong.layer_hook import Change, PassRows, last_places
from emend.memory.edit import Edit
from emend.memory.errors import ModelError

# Gap that is left between the radii of two keys with different labels, as in the published code.
APART = 1e-5
# Distance at which two keys count as equal, relative to the radius of a new key.
EQUAL = 1e-3


@dataclass(frozen=True, kw_only=True)
class GraceSettings(LayerSettings):
    """Settings of GRACE; the shipped values per model are in `settings/grace.toml`."""

    eps: Annotated[float, Field(gt=0)]
    """Deferral radius of a new key (Euclidean)."""


class Codebook(NamedTuple):
    """Keys (n, inputs) with radii, values (n, outputs), float32, and target tokens as labels."""

    keys: Tensor
    values: Tensor
    radii: Tensor
    labels: tuple[tuple[int, ...], ...]

    def nearest(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return distance and number of the key nearest to each query, both of shape (queries,)."""
        # By default cdist uses matrix products from 25 keys on, which makes small distances
        # inaccurate.
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(queries, self.keys, compute_mode=exact).min(1)

    def assign(
        self, key: Tensor, value: Tensor, label: Sequence[int], eps: float
    ) -> tuple["Codebook", int]:
        """Add a labelled key; return the codebook and the number of its entry (Algorithm 1).

        A key far from all others is added. For a key near one with the same label, that one's
        radius grows to include it. A key near one with another label is added, and both radii
        shrink to half the distance. A key equal to an existing one, as when a fact is edited again,
        replaces its label: in the published code both radii would shrink to nothing and both edits
        would be lost.

        Args:
            key: shape (inputs,).
            value: value of a new entry, shape (outputs,).
            label: tokens of the target.
            eps: radius of a new key.
        """
        added = Codebook(
            torch.cat([self.keys, key[None]]),
            torch.cat([self.values, value[None]]),
            torch.cat([self.radii, self.radii.new_tensor([eps])]),
            (*self.labels, tuple(label)),
        )
        if not self.labels:
            return added, 0
        distances, numbers = self.nearest(key[None])
        distance, number = distances[0], int(numbers[0])
        if distance > eps + self.radii[number]:
            return added, len(self.labels)
        if distance <= EQUAL * eps and self.labels[number] != tuple(label):
            labels = (*self.labels[:number], tuple(label), *self.labels[number + 1 :])
            return self._replace(labels=labels).with_value(number, value), number
        radii = added.radii.clone()
        if self.labels[number] == tuple(label):
            radii[number] = torch.maximum(radii[number], distance)
            return self._replace(radii=radii[:-1]), number
        radii[number], radii[-1] = distance / 2 - APART, distance / 2
        return added._replace(radii=radii), len(self.labels)

    def with_value(self, number: int, value: Tensor) -> "Codebook":
        """Return the codebook with another value for an entry."""
        values = self.values.clone()
        values[number] = value
        return self._replace(values=values)


class Grace(LayerEditor[Codebook]):
    """GRACE editor: replaces the down-projection's output at the prompt's last token.

    This is `replace_last` in the published files. The codebook is searched once, at the end of the
    prompt; tokens generated after it are not changed.
    """

    name: ClassVar[str] = "grace"
    schema: ClassVar[type[LayerSettings]] = GraceSettings
    settings: GraceSettings

    def learn(self, memory: Codebook | None, edit: Edit) -> Codebook:
        """Return the codebook with the edit's key, its value trained on the target."""
        row = self.row(edit)
        prompt, label = row.ids[: row.start - 1], row.ids[row.start :]
        suffix = SuffixForward(
            self.lm, self.paths, [PromptSplit(prompt, row.ids[row.start - 1 : -1])], self.layer
        )
        key, output = suffix.captured["key"][0], suffix.captured["value"][0]
        if memory is None:
            memory = Codebook(
                key.new_zeros(0, len(key)), output.new_zeros(0, len(output)), key.new_zeros(0), ()
            )
        with seeded_draws(self.lm.device, self.seed(edit.id)):
            cold = torch.rand(len(output), device=output.device)
        codebook, number = memory.assign(key, cold, label, self.settings.eps)
        return codebook.with_value(
            number, self._train(suffix, codebook.values[number], label, edit)
        )

    def _train(
        self, suffix: SuffixForward, value: Tensor, label: Sequence[int], edit: Edit
    ) -> Tensor:
        """Train a value, shape (outputs,), with Adam on the target's negative log-probability."""
        leaf = value.clone().requires_grad_()
        optimizer = torch.optim.Adam([leaf], lr=self.settings.edit_lr)
        places, tokens = (
            torch.arange(len(label), device=value.device),
            torch.tensor(label, device=value.device),
        )
        with torch.enable_grad():
            for step in range(self.settings.n_iter):
                states = suffix.run(
                    (leaf - suffix.captured["value"][0])[None], torch.zeros_like(places), places
                )
                loss = cross_entropy(compute_logits(self.lm, self.paths, states), tokens)
                if not loss.isfinite():
                    raise ModelError(
                        f"the value of edit '{edit.id}' overflowed at step {step}: set a smaller "
                        f"{self.name}.edit_lr."
                    )
                optimizer.zero_grad()
                loss.backward(inputs=[leaf])
                optimizer.step()
        return leaf.detach()

    def change(self, memory: Codebook) -> Change:
        """Return a change that outputs a key's value at prompt ends within the key's radius."""

        def replaced(inputs: Tensor, outputs: Tensor, rows: PassRows) -> Tensor:
            if rows.continues:
                return outputs
            lines, ends = torch.arange(len(inputs), device=inputs.device), last_places(rows.prompts)
            distances, numbers = memory.nearest(inputs[lines, ends].float())
            near = distances <= memory.radii[numbers]
            changed = outputs.clone()
            changed[lines[near], ends[near]] = memory.values[numbers[near]].to(outputs.dtype)
            return changed

        return replaced
