"""The search for values: what the edited layer must output at the subject for the model to say the target.

This is `compute_v` of ROME (Meng et al. 2022, eq. 4) and `compute_z` of MEMIT (Meng et al. 2023, eq. 16): adding to the
MLP's output or to the block's output is the same function. All edits are optimised in one batch, each with its own
clamp and its own end; those that have converged leave the batch. Kept from the published code: the KL divergence goes
from the edited distribution to the original one, at the subject's last token; the weight decay is on the change's norm,
not its square; the last step only evaluates the loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.locate import FactToken, Located, locate, locate_essence
from emend.editors.numerics.passes import light_passes
from emend.editors.numerics.suffix_forward import PromptSplit, SuffixForward, compute_logits
from emend.editors.numerics.training.training_loop import optimizer_step
from emend.memory.edit import Edit
from emend.memory.errors import ModelError

NAMED = 3
"""Edits that an error names at most."""


@dataclass(frozen=True)
class ValueDescentSettings:
    """Settings of a value's optimisation, named as in the published hyper-parameter files."""

    v_num_grad_steps: Annotated[int, Field(ge=1)]
    """Maximum number of steps; the last one only evaluates the loss."""
    v_lr: Annotated[float, Field(gt=0)]
    """Adam's learning rate."""
    v_weight_decay: Annotated[float, Field(ge=0)]
    """Weight of the change's norm over the squared norm of the original value."""
    clamp_norm_factor: Annotated[float, Field(gt=0)]
    """Largest norm of the change, in norms of the original value."""
    stop_loss: Annotated[float, Field(ge=0)]
    """An edit has converged when its loss is below this."""


@dataclass(frozen=True)
class ValueSearchSettings(ValueDescentSettings):
    """Settings of the search for the value of a subject."""

    kl_factor: Annotated[float, Field(ge=0)]
    """Weight of the KL divergence at the subject in "<subject> is a", in nats."""
    fact_token: FactToken = field(default="auto", kw_only=True)
    """The token at which the value is written: `subject_last`, `last`, or `auto`, which is `subject_last` except where
    that is the very first token, without a begin token in front."""


class ValueResult(NamedTuple):
    """Result of a value search, one row per edit; `width` is that of the residual stream."""

    change: Tensor
    """Shape (edits, width), float32: to be added to the original value."""
    value: Tensor
    """Shape (edits, width), float32: the original value in the bare prompt, at the MLP's or the block's end."""
    keys: Tensor
    """Shape (edits, 2, inputs), float64 on the CPU: the key of the bare prompt, and the mean over all contexts.

    Only of the site `mlp`, else inputs are 0: a batch of thousands of edits would hold them for nothing.
    """
    steps: tuple[int, ...]
    loss: tuple[float, ...]

    def part(self, rows: slice) -> "ValueResult":
        """The result for some of the edits."""
        return ValueResult(self.change[rows], self.value[rows], self.keys[rows], self.steps[rows], self.loss[rows])


_Converged = tuple[Tensor, Tensor, Tensor, int, float]
"""Change, original value, keys, steps and loss of one edit."""


class ValueJob(NamedTuple):
    """A value to optimise: the prompts with their target, the bare one first."""

    number: int
    edit: Edit
    prompts: list[Located]
    essence: Located | None = None
    """The prompt "<subject> is a", at whose subject the distribution of the next token should stay."""
    fixed: tuple[tuple[int, Tensor], ...] = ()
    """Changes, shape (width,), that stay at earlier tokens of each prompt, by place."""

    @property
    def rows(self) -> list[Located]:
        """All prompts."""
        return self.prompts if self.essence is None else [*self.prompts, self.essence]

    @property
    def rest(self) -> int:
        """Tokens of the longest row from the subject's last on."""
        return max(len(row.ids) - 1 - row.subject for row in self.rows)

    @property
    def width(self) -> int:
        """Tokens of the longest row in front of the subject's last, or from it on."""
        return max(self.rest, *(row.subject for row in self.rows))

    @property
    def essence_in_bare(self) -> bool:
        """True where the bare prompt begins with the subject, so that both prompts are one up to its last token.

        Not where the target follows at once: one place would then be scored twice.
        """
        bare, essence = self.prompts[0], self.essence
        if essence is None or bare.target == bare.subject + 1:
            return False
        return bare.ids[: bare.subject + 1] == essence.ids[: essence.subject + 1]


def search_values(
    lm: CausalLM,
    paths: Architecture,
    edits: Sequence[Edit],
    prefixes: Sequence[str],
    layer: int,
    value_site: Literal["mlp", "block"],
    settings: ValueSearchSettings,
) -> ValueResult:
    """The change that makes each edit's target probable after its cloze behind every prefix; `prefixes[0]` is "".

    Each edit is optimised on its own, in batches of the model's token budget. The original value is read for clamp and
    decay, at `value_site`: `mlp` (ROME) or `block` (MEMIT). Layers count from 0.

    Raises:
        BadData: an edit has no subject, prompt or target.
        ModelError: a loss is not finite; names step, loss and edit.
    """
    jobs = [
        ValueJob(
            n, edit, locate(lm, edit, prefixes, settings.fact_token), locate_essence(lm, edit, settings.fact_token)
        )
        for n, edit in enumerate(edits)
    ]
    return optimise_values(lm, paths, jobs, layer, value_site, settings, settings.kl_factor)


def optimise_values(
    lm: CausalLM,
    paths: Architecture,
    jobs: Sequence[ValueJob],
    layer: int,
    value_site: Literal["mlp", "block"],
    settings: ValueDescentSettings,
    kl_factor: float = 0.0,
) -> ValueResult:
    """The values of the jobs, which are numbered from 0, in batches of the model's token budget.

    Raises:
        ModelError: a loss is not finite; names step, loss and edit.
    """
    converged: dict[int, _Converged] = {}
    with light_passes(lm.model):
        for part in _parts(jobs, lm.batch_tokens):
            converged |= ValueOptimizer(lm, paths, part, layer, value_site, settings, kl_factor).run()
    changes, values, keys, steps, losses = zip(*(converged[n] for n in range(len(jobs))), strict=True)
    return ValueResult(torch.stack(changes), torch.stack(values), torch.stack(keys), steps, losses)


def _parts(jobs: Sequence[ValueJob], budget: int) -> list[list[ValueJob]]:
    """Edits of similar length together; no pass of a part has more than `budget` positions unless one edit's has.

    The tokens in front of the subject's last one are read in one pass, and those from it on in another.
    """
    parts: list[list[ValueJob]] = []
    rows = widest = 0
    for job in sorted(jobs, key=lambda job: (job.rest, job.width)):  # each step runs the rest, the front is run once
        rows, widest = rows + len(job.rows), max(widest, job.width)
        if not parts or rows * widest > budget:
            parts.append([])
            rows, widest = len(job.rows), job.width
        parts[-1].append(job)
    return parts


class _Batch:
    """All prompts of some edits as rows of one batch, each edit's bare prompt first among its own rows."""

    def __init__(self, lm: CausalLM, paths: Architecture, jobs: list[ValueJob], layer: int) -> None:
        self.jobs = jobs
        splits: list[PromptSplit] = []
        bare, essence, edit_of_row = list[int](), list[int](), list[int]()
        targets: list[tuple[int, int, int, float, int]] = []
        for m, job in enumerate(jobs):
            bare.append(len(splits))
            for row in job.prompts:
                # The last target token is predicted, but never fed.
                share = 1.0 / (len(row.ids) - row.target) / len(job.prompts)
                targets += [
                    (len(splits), place - row.subject - 1, row.ids[place], share, m)
                    for place in range(row.target, len(row.ids))
                ]
                splits.append(PromptSplit(row.ids[: row.subject], row.ids[row.subject : -1], job.fixed))
            if job.essence_in_bare:
                essence.append(bare[-1])
            elif job.essence is not None:
                essence.append(len(splits))
                ids, subject, _ = job.essence
                splits.append(PromptSplit(ids[:subject], ids[subject : subject + 1]))
            edit_of_row += [m] * (len(splits) - len(edit_of_row))
        self.bare = torch.tensor(bare, device=lm.device)
        """Row of each edit's bare prompt, shape (edits,)."""
        self.edit_of_row = torch.tensor(edit_of_row, device=lm.device)
        rows, places, *columns = zip(*targets, strict=True)
        self.tokens, self.shares, self.edit_of_target = (torch.tensor(column, device=lm.device) for column in columns)
        """For each target token of each prompt: the token, its share of the edit's loss, and the edit; shape (target
        tokens,) each."""
        self.rows = torch.tensor([*rows, *essence], device=lm.device)
        self.places = torch.tensor([*places, *[0] * len(essence)], device=lm.device)
        """The rows and places that predict the target tokens, then those of the essence prompts' subjects."""
        self.suffix = SuffixForward(lm, paths, splits, layer)


class ValueOptimizer:
    """Optimises the values of one batch of edits with Adam, until each edit has converged."""

    def __init__(
        self,
        lm: CausalLM,
        paths: Architecture,
        jobs: list[ValueJob],
        layer: int,
        value_site: str,
        settings: ValueDescentSettings,
        kl_factor: float,
    ) -> None:
        self.lm, self.paths, self.layer, self.settings, self.kl_factor = lm, paths, layer, settings, kl_factor
        self.batch = _Batch(lm, paths, jobs, layer)
        site = {"mlp": "value", "block": "state"}[value_site]
        self.original = self.batch.suffix.captured[site][self.batch.bare]
        self.norm = self.original.norm(dim=1)
        keys = self.batch.suffix.captured["key"][:, : None if value_site == "mlp" else 0].cpu().double()
        self.keys = {
            job.number: torch.stack([keys[bare], keys[bare : bare + len(job.prompts)].mean(0)])
            for job, bare in zip(jobs, self.batch.bare.tolist(), strict=True)
        }
        self.original_log_probs: Tensor | None = None
        """Those at the subject in the essence prompts, shape (edits, vocabulary), before any change."""
        self._set_change(torch.zeros_like(self.original))

    def run(self) -> dict[int, _Converged]:
        """The results by the edits' numbers."""
        converged: dict[int, _Converged] = {}
        for step in range(self.settings.v_num_grad_steps):
            loss = self._loss()
            losses = loss.detach().tolist()
            if not all(map(isfinite, losses)):
                raise self._failure(step, losses)
            last = step == self.settings.v_num_grad_steps - 1
            ended = [n for n, value in enumerate(losses) if last or value < self.settings.stop_loss]
            for n in ended:
                number = self.batch.jobs[n].number
                change = self.change[n].detach().clone()
                converged[number] = (change, self.original[n], self.keys[number], step, losses[n])
            if len(ended) == len(self.batch.jobs):
                break
            self._step(loss)
            if ended:
                self._drop(set(ended))
        return converged

    def _loss(self) -> Tensor:
        """The loss of each edit, shape (edits,): negative log-probability, KL divergence, weight decay."""
        batch = self.batch
        with torch.enable_grad():
            states = batch.suffix.run(self.change[batch.edit_of_row], batch.rows, batch.places)
            targets, essence = compute_logits(self.lm, self.paths, states).tensor_split([len(batch.tokens)])
            surprise = cross_entropy(targets, batch.tokens, reduction="none")
            nll = torch.zeros(len(batch.jobs), device=surprise.device)
            nll = nll.index_add(0, batch.edit_of_target, surprise * batch.shares)
            decay = self.settings.v_weight_decay * self.change.norm(dim=1) / self.norm**2
            loss: Tensor = nll + decay
            if len(essence):
                log_probs = essence.log_softmax(-1)
                if self.original_log_probs is None:  # the change is still zero
                    self.original_log_probs = log_probs.detach()
                divergence = kl_div(self.original_log_probs, log_probs, log_target=True, reduction="none").sum(-1)
                loss = loss + self.kl_factor * divergence
            return loss

    def _step(self, loss: Tensor) -> None:
        """Take one step of Adam, and clamp the change."""
        self.optimizer.zero_grad()
        with torch.enable_grad():
            loss.sum().backward(inputs=[self.change])
        moved = optimizer_step(self.optimizer.step)
        with torch.no_grad():
            limit = self.settings.clamp_norm_factor * self.norm
            norm = self.change.norm(dim=1)
            scale = (limit / norm.clamp(min=1e-12)).clamp(max=1.0)
            # A norm that overflowed would be clamped to no change at all; this way the next loss is not finite.
            self.change.mul_(scale.where(norm.isfinite() & moved, torch.nan)[:, None])

    def _set_change(self, change: Tensor) -> None:
        self.change = change.requires_grad_()
        self.optimizer = torch.optim.Adam([self.change], lr=self.settings.v_lr)

    def _drop(self, ended: set[int]) -> None:
        """Continue without these edits; Adam's averages of the others are carried over.

        Masking them instead would continue to compute them: of MEMIT's steps on twelve edits only a third are needed.
        """
        stay = torch.tensor([n for n in range(len(self.batch.jobs)) if n not in ended], device=self.lm.device)
        averages = self.optimizer.state[self.change]
        self.batch = _Batch(self.lm, self.paths, [self.batch.jobs[n] for n in stay.tolist()], self.layer)
        self.original, self.norm = self.original[stay], self.norm[stay]
        if self.original_log_probs is not None:
            self.original_log_probs = self.original_log_probs[stay]
        self._set_change(self.change.detach()[stay].clone())
        self.optimizer.state[self.change] = {
            name: value[stay] if value.dim() else value for name, value in averages.items()
        }

    def _failure(self, step: int, losses: list[float]) -> ModelError:
        failed = [(job.edit, loss) for job, loss in zip(self.batch.jobs, losses, strict=True) if not isfinite(loss)]
        named = ", ".join(f"'{edit.id}' ({(edit.cloze or edit.text)[:60]!r})" for edit, _ in failed[:NAMED])
        others = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        return ModelError(
            f"the search for a value failed at step {step}, got losses {[loss for _, loss in failed[:NAMED]]} of "
            f"edit{'s' * (len(failed) > 1)} {named}{others}: set a smaller v_lr, or leave them out."
        )
