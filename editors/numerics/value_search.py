"""The search for values: what the edited layer must give at the subject for the model to say the target.

One search serves rank-one and mass editing (Meng et al. 2022, eq. 4; Meng et al. 2023, eq. 16): adding to the MLP's
output or to the block's output is the same function. All edits are searched for together, each with its own clamp and
its own end; what is done is dropped. Kept from the published code: the divergence is taken from the edited
distribution to the original one, at the subject's last token; the decay is on the length, not its square; the last
step only looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import kl_div

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.locate import Located, locate, locate_essence
from emend.editors.numerics.suffix_forward import Seen, Strip, Tail, logits_of
from emend.editors.numerics.training import stepped
from emend.memory.edit import Edit
from emend.memory.errors import ModelError

NAMED = 3
"""Edits that an error names at most."""


@dataclass(frozen=True)
class Search:
    """How values are searched for."""

    steps: Annotated[int, Field(ge=1)]
    """Steps at most; the last one only looks."""
    rate: Annotated[float, Field(gt=0)]
    """Adam's learning rate."""
    kl: Annotated[float, Field(ge=0)]
    """Weight of the divergence at the subject in "<subject> is a", in nats."""
    decay: Annotated[float, Field(ge=0)]
    """Weight of the change's length over the squared length of the original value."""
    clamp: Annotated[float, Field(gt=0)]
    """Largest length of the change, in lengths of the original value."""
    stop: Annotated[float, Field(ge=0)]
    """An edit is done when its loss is below this."""


class Found(NamedTuple):
    """What a search ended with, one row per edit; widths are those of the residual stream."""

    change: Tensor
    """Shape (edits, width), float32: to be added to the original value."""
    value: Tensor
    """Shape (edits, width), float32: the original value in the bare prompt, at the MLP's or the block's end."""
    steps: tuple[int, ...]
    loss: tuple[float, ...]

    def part(self, places: slice) -> "Found":
        """That of some of the edits."""
        return Found(self.change[places], self.value[places], self.steps[places], self.loss[places])


class _Job(NamedTuple):
    """An edit in work: its prompts, the bare one first and the essence prompt last."""

    place: int
    edit: Edit
    rows: list[Located]


def search_values(
    lm: CausalLM,
    paths: Architecture,
    edits: Sequence[Edit],
    prefixes: Sequence[str],
    layer: int,
    at: Literal["mlp", "block"],
    plan: Search,
) -> Found:
    """The change that makes each edit's target probable after its cloze behind every prefix; `prefixes[0]` is "".

    Args:
        lm: the model, as it stands.
        paths: its module paths.
        edits: each is searched for on its own, in batches of the model's token budget.
        prefixes: texts put before the cloze.
        layer: the edited layer, from 0.
        at: where the original value is read, for clamp and decay: `mlp` (ROME) or `block` (MEMIT).
        plan: the settings.

    Raises:
        BadData: an edit has no subject, prompt or target.
        ModelError: a loss is not a number; step, loss and edit are named.
    """
    jobs = [_Job(n, edit, [*locate(lm, edit, prefixes), locate_essence(lm, edit)]) for n, edit in enumerate(edits)]
    done: dict[int, tuple[Tensor, Tensor, int, float]] = {}
    for batch in _batches(jobs, lm.batch_tokens):
        done |= _Hunt(lm, paths, batch, layer, at, plan).through()
    found = [done[n] for n in range(len(edits))]
    return Found(
        change=torch.stack([change for change, *_ in found]),
        value=torch.stack([value for _, value, *_ in found]),
        steps=tuple(steps for *_, steps, _ in found),
        loss=tuple(loss for *_, loss in found),
    )


def _batches(jobs: Sequence[_Job], budget: int) -> list[list[_Job]]:
    """Edits of like length together, so that no batch holds more than `budget` places unless one edit does."""
    batches: list[list[_Job]] = []
    size = 0
    for job in sorted(jobs, key=lambda job: max(len(row.ids) for row in job.rows)):
        cost = len(job.rows) * max(len(row.ids) for row in job.rows)
        if not batches or size + cost > budget:
            batches.append([])
            size = 0
        batches[-1].append(job)
        size += cost
    return batches


class _Hunt:
    """One batch of edits, searched for together until each is done."""

    def __init__(self, lm: CausalLM, paths: Architecture, jobs: list[_Job], layer: int, at: str, plan: Search) -> None:
        self.lm, self.paths, self.layer, self.at, self.plan = lm, paths, layer, at, plan
        self._lay(jobs)
        self.original, self.size = self._values(self.tail.seen)
        with torch.no_grad():
            unchanged = torch.zeros(len(self.owner), self.original.shape[1], device=lm.device)
            self.kept = self._essence(self.tail.run(unchanged))
        self._start(torch.zeros_like(self.original))

    def through(self) -> dict[int, tuple[Tensor, Tensor, int, float]]:
        """Per place of an edit: its change, its original value, the steps taken and the last loss."""
        done: dict[int, tuple[Tensor, Tensor, int, float]] = {}
        for step in range(self.plan.steps):
            loss = self._loss()
            told = loss.detach().tolist()
            if not all(map(isfinite, told)):
                raise self._failed(step, told)
            last = step == self.plan.steps - 1
            ended = [n for n, value in enumerate(told) if last or value < self.plan.stop]
            for n in ended:
                done[self.jobs[n].place] = (self.free[n].detach().clone(), self.original[n], step, told[n])
            if len(done) and len(ended) == len(self.jobs):
                return done
            self._step(loss, set(ended))
        return done

    def _failed(self, step: int, losses: list[float]) -> ModelError:
        failed = [(job.edit, loss) for job, loss in zip(self.jobs, losses, strict=True) if not isfinite(loss)]
        named = ", ".join(f"'{edit.id}' ({edit.cloze[:60]!r})" for edit, _ in failed[:NAMED])
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        return ModelError(
            f"the search for a value failed at step {step}, seen losses {[loss for _, loss in failed[:NAMED]]} of "
            f"edit{'s' * (len(failed) > 1)} {named}{more}: set a smaller rate, or leave them out."
        )

    def _lay(self, jobs: list[_Job]) -> None:
        """Puts the prompts of these edits into one batch, each edit's essence prompt last among its own."""
        self.jobs = jobs
        rows = [row for job in jobs for row in job.rows]
        self.owner = torch.tensor([n for n, job in enumerate(jobs) for _ in job.rows], device=self.lm.device)
        counts = torch.tensor([len(job.rows) for job in jobs])
        self.essence = counts.cumsum(0) - 1
        self.first = self.essence - counts + 1
        essence = set(self.essence.tolist())
        strips = [
            Strip(row.ids[: row.subject], row.ids[row.subject : row.subject + 1 if n in essence else -1])
            for n, row in enumerate(rows)
        ]
        self.tail = Tail(self.lm, self.paths, strips, self.layer)
        wanted = [
            (n, place - row.subject - 1, row.ids[place], 1.0 / (len(row.ids) - row.target) / (len(job.rows) - 1), m)
            for m, job in enumerate(jobs)
            for n, row in zip(range(int(self.first[m]), int(self.essence[m])), job.rows[:-1], strict=True)
            for place in range(row.target, len(row.ids))
        ]
        columns = list(zip(*wanted, strict=True))
        self.lines, self.places, self.tokens = (torch.tensor(column, device=self.lm.device) for column in columns[:3])
        self.shares = torch.tensor(columns[3], device=self.lm.device)
        self.owners = torch.tensor(columns[4], device=self.lm.device)

    def _values(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """The original value in each edit's bare prompt, and its length."""
        value = (seen.value if self.at == "mlp" else seen.state)[self.first.to(self.lm.device)]
        return value, value.norm(dim=1)

    def _start(self, change: Tensor) -> None:
        self.free = change.requires_grad_()
        self.optimizer = torch.optim.Adam([self.free], lr=self.plan.rate)

    def _essence(self, states: Tensor) -> Tensor:
        return logits_of(self.lm, self.paths, states[self.essence.to(states.device), 0]).log_softmax(-1)

    def _loss(self) -> Tensor:
        """The loss of each edit, shape (edits,)."""
        with torch.enable_grad():
            states = self.tail.run(self.free[self.owner])
            logits = logits_of(self.lm, self.paths, states[self.lines, self.places])
            surprise = logits.logsumexp(-1) - logits.gather(1, self.tokens[:, None])[:, 0]
            each = torch.zeros(len(self.jobs), device=surprise.device).index_add(0, self.owners, surprise * self.shares)
            drift = kl_div(self.kept, self._essence(states), log_target=True, reduction="none").sum(-1)
            loss: Tensor = each + self.plan.kl * drift + self.plan.decay * self.free.norm(dim=1) / self.size**2
            return loss

    def _step(self, loss: Tensor, ended: set[int]) -> None:
        """One step of Adam, the clamp, and then without the edits that are done."""
        self.optimizer.zero_grad()
        with torch.enable_grad():
            loss.sum().backward(inputs=[self.free])
        moved = stepped(self.optimizer)
        with torch.no_grad():
            limit = self.plan.clamp * self.size
            size = self.free.norm(dim=1)
            scale = (limit / size.clamp(min=1e-12)).clamp(max=1.0)
            # A length that overflowed would be clamped to no change at all; this way the next loss is no number.
            self.free.mul_(scale.where(size.isfinite() & moved, torch.nan)[:, None])
        if ended:
            self._drop(ended)

    def _drop(self, ended: set[int]) -> None:
        """Goes on without these; Adam's averages of the others stay what they are."""
        keep = torch.tensor([n for n in range(len(self.jobs)) if n not in ended], device=self.lm.device)
        state = self.optimizer.state[self.free]
        averages = {name: value[keep] if value.dim() else value for name, value in state.items()}
        self._lay([self.jobs[n] for n in keep.tolist()])
        self.original, self.size, self.kept = self.original[keep], self.size[keep], self.kept[keep]
        self._start(self.free.detach()[keep].clone())
        self.optimizer.state[self.free] = averages
