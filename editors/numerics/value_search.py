"""Value search: find the layer output at the subject that makes the model predict the target.

This is `compute_v` of ROME (Meng et al. 2022, eq. 4) and `compute_z` of MEMIT (Meng et al. 2023,
eq. 16): adding to the MLP's output or to the block's output is the same function. All edits are
optimised in one batch, each with its own clamp and stopping point; converged edits leave the batch.
As in the published code, the KL divergence is KL(edited || original) at the subject's last token,
weight decay uses the norm of the change, not its square, and the last step only evaluates the loss.
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

# Maximum number of edits that an error names.
NAMED = 3


@dataclass(frozen=True)
class ValueDescentSettings:
    """Settings of a value's optimisation, named as in the published hyper-parameter files."""

    v_num_grad_steps: Annotated[int, Field(ge=1)]
    """Maximum number of steps; the last one only evaluates the loss."""
    v_lr: Annotated[float, Field(gt=0)]
    """Adam's learning rate."""
    v_weight_decay: Annotated[float, Field(ge=0)]
    """Weight of the decay term, the change's norm over the squared norm of the original value."""
    clamp_norm_factor: Annotated[float, Field(gt=0)]
    """Maximum norm of the change, relative to the norm of the original value."""
    stop_loss: Annotated[float, Field(ge=0)]
    """Loss below which an edit has converged."""


@dataclass(frozen=True)
class ValueSearchSettings(ValueDescentSettings):
    """Settings of the search for a subject's value."""

    kl_factor: Annotated[float, Field(ge=0)]
    """Weight of the KL divergence, in nats, at the subject in "<subject> is a"."""
    fact_token: FactToken = field(default="auto", kw_only=True)
    """The token at which the value is written: `subject_last`, `last` or `auto`.

    `auto` is `subject_last`, or `last` if the subject's last token is the very first token of the
    text, without a begin token in front.
    """


class ValueResult(NamedTuple):
    """Result of a value search, one row per edit; `width` is that of the residual stream."""

    change: Tensor
    """Change to be added to the original value, shape (edits, width), float32."""
    value: Tensor
    """Original value at the MLP's or block's output in the bare prompt, (edits, width), float32."""
    keys: Tensor
    """Keys of bare prompts, and means over contexts, shape (edits, 2, inputs), float64 on the CPU.

    Only kept for the site `mlp`, otherwise `inputs` is 0 to save memory in batches of thousands of
    edits.
    """
    steps: tuple[int, ...]
    loss: tuple[float, ...]

    def part(self, rows: slice) -> "ValueResult":
        """Return the result for some of the edits."""
        return ValueResult(
            self.change[rows], self.value[rows], self.keys[rows], self.steps[rows], self.loss[rows]
        )


# Change, original value, keys, steps and loss of one edit.
_Converged = tuple[Tensor, Tensor, Tensor, int, float]


class ValueJob(NamedTuple):
    """A value to optimise: the prompts with their target, the bare prompt first."""

    number: int
    edit: Edit
    prompts: list[Located]
    essence: Located | None = None
    """The prompt "<subject> is a"; the next-token distribution at its subject should not change."""
    fixed: tuple[tuple[int, Tensor], ...] = ()
    """Permanent changes, shape (width,), at earlier tokens of each prompt, with positions."""

    @property
    def rows(self) -> list[Located]:
        """All prompts."""
        return self.prompts if self.essence is None else [*self.prompts, self.essence]

    @property
    def rest(self) -> int:
        """Number of tokens from the subject's last token on, in the longest row."""
        return max(len(row.ids) - 1 - row.subject for row in self.rows)

    @property
    def width(self) -> int:
        """Number of tokens before the subject's last token, or from it on, whichever is larger."""
        return max(self.rest, *(row.subject for row in self.rows))

    @property
    def essence_in_bare(self) -> bool:
        """True if the bare prompt and the essence prompt are equal up to the subject's last token.

        False if the target directly follows the subject, since one position would then be scored
        twice.
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
    """Find the change that makes each edit's target probable after its cloze with every prefix.

    Each edit is optimised separately, in batches of the model's token budget. `prefixes[0]` is "".
    The original value, for clamp and decay, is read at `value_site`: `mlp` (ROME) or `block`
    (MEMIT). Layers count from 0.

    Raises:
        BadData: an edit has no subject, prompt or target.
        ModelError: a loss is not finite; names step, loss and edit.
    """
    jobs = [
        ValueJob(
            n,
            edit,
            locate(lm, edit, prefixes, settings.fact_token),
            locate_essence(lm, edit, settings.fact_token),
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
    """Optimise the values of jobs numbered from 0, in batches of the model's token budget.

    Raises:
        ModelError: a loss is not finite; names step, loss and edit.
    """
    converged: dict[int, _Converged] = {}
    with light_passes(lm.model):
        for part in _parts(jobs, lm.batch_tokens):
            converged |= ValueOptimizer(
                lm, paths, part, layer, value_site, settings, kl_factor
            ).run()
    changes, values, keys, steps, losses = zip(
        *(converged[n] for n in range(len(jobs))), strict=True
    )
    return ValueResult(torch.stack(changes), torch.stack(values), torch.stack(keys), steps, losses)


def _parts(jobs: Sequence[ValueJob], budget: int) -> list[list[ValueJob]]:
    """Split jobs into batches of similar length whose passes have at most `budget` positions.

    An edit that is larger by itself gets its own batch. The tokens before the subject's last token
    are read in one pass, those from it on in another.
    """
    parts: list[list[ValueJob]] = []
    rows = widest = 0
    # each step runs the rest, the front is run once
    for job in sorted(jobs, key=lambda job: (job.rest, job.width)):
        rows, widest = rows + len(job.rows), max(widest, job.width)
        if not parts or rows * widest > budget:
            parts.append([])
            rows, widest = len(job.rows), job.width
        parts[-1].append(job)
    return parts


class _Batch:
    """All prompts of some edits as rows of one batch, with each edit's bare prompt first."""

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
                splits.append(
                    PromptSplit(row.ids[: row.subject], row.ids[row.subject : -1], job.fixed)
                )
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
        self.tokens, self.shares, self.edit_of_target = (
            torch.tensor(column, device=lm.device) for column in columns
        )
        """Token id, weight in the loss, and edit of each target token of each prompt.

        The shape is (target tokens,) each.
        """
        self.rows = torch.tensor([*rows, *essence], device=lm.device)
        self.places = torch.tensor([*places, *[0] * len(essence)], device=lm.device)
        """Positions in `rows` that predict target tokens, then the essence prompts' subjects."""
        self.suffix = SuffixForward(lm, paths, splits, layer)


class ValueOptimizer:
    """Adam optimiser of the values of one batch of edits, until each edit has converged."""

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
        self.lm, self.paths, self.layer, self.settings, self.kl_factor = (
            lm,
            paths,
            layer,
            settings,
            kl_factor,
        )
        self.batch = _Batch(lm, paths, jobs, layer)
        site = {"mlp": "value", "block": "state"}[value_site]
        self.original = self.batch.suffix.captured[site][self.batch.bare]
        self.norm = self.original.norm(dim=1)
        keys = (
            self.batch.suffix.captured["key"][:, : None if value_site == "mlp" else 0]
            .cpu()
            .double()
        )
        self.keys = {
            job.number: torch.stack([keys[bare], keys[bare : bare + len(job.prompts)].mean(0)])
            for job, bare in zip(jobs, self.batch.bare.tolist(), strict=True)
        }
        self.original_log_probs: Tensor | None = None
        """Original log-probabilities at the essence subjects, shape (edits, vocabulary)."""
        self._set_change(torch.zeros_like(self.original))

    def run(self) -> dict[int, _Converged]:
        """Optimise and return the results by job number."""
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
        """Return each edit's loss, shape (edits,): target likelihood, KL divergence, decay."""
        batch = self.batch
        with torch.enable_grad():
            states = batch.suffix.run(self.change[batch.edit_of_row], batch.rows, batch.places)
            targets, essence = compute_logits(self.lm, self.paths, states).tensor_split(
                [len(batch.tokens)]
            )
            surprise = cross_entropy(targets, batch.tokens, reduction="none")
            nll = torch.zeros(len(batch.jobs), device=surprise.device)
            nll = nll.index_add(0, batch.edit_of_target, surprise * batch.shares)
            decay = self.settings.v_weight_decay * self.change.norm(dim=1) / self.norm**2
            loss: Tensor = nll + decay
            if len(essence):
                log_probs = essence.log_softmax(-1)
                if self.original_log_probs is None:  # the change is still zero
                    self.original_log_probs = log_probs.detach()
                divergence = kl_div(
                    self.original_log_probs, log_probs, log_target=True, reduction="none"
                ).sum(-1)
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
            # Otherwise a norm that overflowed would be clamped to a change of zero; NaN fails at
            # the next loss.
            self.change.mul_(scale.where(norm.isfinite() & moved, torch.nan)[:, None])

    def _set_change(self, change: Tensor) -> None:
        self.change = change.requires_grad_()
        self.optimizer = torch.optim.Adam([self.change], lr=self.settings.v_lr)

    def _drop(self, ended: set[int]) -> None:
        """Remove these edits from the batch; Adam's averages of the others are kept.

        Masking would still compute them: twelve MEMIT edits need only a third of the steps.
        """
        stay = torch.tensor(
            [n for n in range(len(self.batch.jobs)) if n not in ended], device=self.lm.device
        )
        averages = self.optimizer.state[self.change]
        self.batch = _Batch(
            self.lm, self.paths, [self.batch.jobs[n] for n in stay.tolist()], self.layer
        )
        self.original, self.norm = self.original[stay], self.norm[stay]
        if self.original_log_probs is not None:
            self.original_log_probs = self.original_log_probs[stay]
        self._set_change(self.change.detach()[stay].clone())
        self.optimizer.state[self.change] = {
            name: value[stay] if value.dim() else value for name, value in averages.items()
        }

    def _failure(self, step: int, losses: list[float]) -> ModelError:
        failed = [
            (job.edit, loss)
            for job, loss in zip(self.batch.jobs, losses, strict=True)
            if not isfinite(loss)
        ]
        named = ", ".join(
            f"'{edit.id}' ({(edit.cloze or edit.text)[:60]!r})" for edit, _ in failed[:NAMED]
        )
        others = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        return ModelError(
            f"the search for a value failed at step {step}, got losses "
            f"{[loss for _, loss in failed[:NAMED]]} of edit{'s' * (len(failed) > 1)} "
            f"{named}{others}: set a smaller v_lr, or leave them out."
        )
