"""Rank-one model editing: one key, one value, one outer product on a down-projection (Meng et al. 2022, section 3).

The mathematics alone, as pure functions from a model to deltas; steps are measured in units of the residual stream, so
that one set of settings serves models whose activations differ in scale.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div

from emend.agents.causal_lm import CausalLM
from emend.editors.architectures import down_projection, input_first
from emend.editors.weights import Deltas
from emend.memory.edit import Edit
from emend.memory.errors import BadData


@dataclass(frozen=True)
class RankOneSettings:
    """What decides a rank-one edit; the defaults are those of the embedded model."""

    layer: int = 1
    steps: int = 40
    rate: float = 0.2
    kl: float = 0.1
    decay: float = 0.01
    clamp: float = 1.5
    """Largest length of the value's change, in lengths of the residual stream at that place."""
    ridge: float = 1e-4
    stop: float = 0.03
    """The search ends when the mean negative log-probability of the target falls below this."""
    prefixes: tuple[str, ...] = ("", "Q: ", "New Fact: ", "It is true that ", "Context: ", "Yes. ", "So, ", "The ")


class Rows(NamedTuple):
    """The prompts as one right-padded batch; the last row is the one whose next token must not change."""

    ids: Tensor
    mask: Tensor
    subject: Tensor
    """Place of the last subject token, per row."""
    targets: list[Tensor]
    begins: list[int]


def second_moment(lm: CausalLM, texts: Sequence[str], layer: int, batch: int = 64) -> Tensor:
    """Mean of k k^T over all tokens of the texts; k enters the layer's down-projection. Shape (D, D), float32."""
    module = lm.model.get_submodule(down_projection(lm.model, layer))
    total, count = torch.zeros(()), 0
    for start in range(0, len(texts), batch):
        rows = lm.tokenizer(list(texts[start : start + batch]), return_tensors="pt", padding=True, padding_side="right")
        with torch.no_grad(), _captured(module) as seen:
            lm.model(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"])
        keys = seen["input"][rows["attention_mask"].bool()].float()
        total, count = total + keys.T @ keys, count + len(keys)
    return total / max(1, count)


def rank_one(lm: CausalLM, edit: Edit, moment: Tensor, settings: RankOneSettings) -> Deltas:
    """The delta that makes the last subject token's key produce a value which makes the model say the target.

    Raises:
        BadData: the edit has no subject in its prompt, or no target.
    """
    if "{}" not in edit.prompt or not edit.subject or not edit.target_new:
        raise BadData(f"edit '{edit.id}' needs subject, prompt with {{}} and target_new for a rank-one edit.")
    path = down_projection(lm.model, settings.layer)
    module = lm.model.get_submodule(path)
    rows = _rows(lm.tokenizer, edit, settings.prefixes)
    change, keys = _search_value(lm.model, module, rows, settings)
    key = keys[:-1].mean(0)
    size = moment.diagonal().mean() * settings.ridge
    direction = torch.linalg.solve(moment + size * torch.eye(len(key)), key)
    update = torch.outer(change / (direction @ keys[0]), direction)
    return {f"{path}.weight": update.T if input_first(module) else update}


def _rows(tokenizer: Any, edit: Edit, prefixes: Sequence[str]) -> Rows:
    texts = [f"{prefix}{edit.cloze}" for prefix in prefixes]
    ends = [len(prefix) + edit.prompt.index("{}") + len(edit.subject) for prefix in prefixes]
    full = [tokenizer(f"{text} {edit.target_new}")["input_ids"] for text in texts]
    begins = [_common(tokenizer(text)["input_ids"], ids) for text, ids in zip(texts, full, strict=True)]
    texts.append(f"{edit.subject} is a")
    full.append(tokenizer(texts[-1])["input_ids"])
    ends.append(len(edit.subject))
    places = [_token_at(tokenizer, text, end) for text, end in zip(texts, ends, strict=True)]
    width = max(map(len, full))
    fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    return Rows(
        ids=torch.tensor([[*ids, *[fill] * (width - len(ids))] for ids in full]),
        mask=torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in full]),
        subject=torch.tensor(places),
        targets=[torch.tensor(ids[begin:]) for ids, begin in zip(full, begins, strict=False)],
        begins=begins,
    )


def _common(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _token_at(tokenizer: Any, text: str, end: int) -> int:
    """The last token that holds a character before `end`."""
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    return max(place for place, (start, stop) in enumerate(offsets) if start < end and stop > start)


def _search_value(model: nn.Module, module: nn.Module, rows: Rows, settings: RankOneSettings) -> tuple[Tensor, Tensor]:
    """The change of the module's output at the subject, and the keys there (one per row, the KL row last)."""
    where = torch.arange(len(rows.ids)), rows.subject
    with torch.no_grad(), _captured(module) as seen:
        before = model(input_ids=rows.ids, attention_mask=rows.mask, output_hidden_states=True)
    keys, value = seen["input"][where].float(), seen["output"][where]
    length = before.hidden_states[settings.layer + 1][where].float().norm(dim=-1).mean()
    last = int(rows.mask[-1].sum()) - 1
    kept = before.logits[-1, last].float().log_softmax(-1)
    unit = length / value.shape[-1] ** 0.5
    free = torch.zeros(value.shape[-1], requires_grad=True)
    optimizer = torch.optim.Adam([free], lr=settings.rate)
    for _ in range(settings.steps):
        with _added(module, where, (free * unit).to(value.dtype)):
            logits = model(input_ids=rows.ids, attention_mask=rows.mask).logits.float()
        surprise = _surprise(logits, rows)
        if surprise.item() < settings.stop:
            break
        drift = kl_div(kept, logits[-1, last].log_softmax(-1), log_target=True, reduction="sum")
        loss = surprise + settings.kl * drift + settings.decay * (free * unit / length).norm() ** 2
        optimizer.zero_grad()
        loss.backward(inputs=[free])
        optimizer.step()
        with torch.no_grad():
            free.mul_(torch.clamp(settings.clamp * length / (free.norm() * unit + 1e-9), max=1.0))
    return (free * unit).detach(), keys


def _surprise(logits: Tensor, rows: Rows) -> Tensor:
    """Mean over prompts of the mean negative log-probability of the target's tokens."""
    each = [
        -logits[row, begin - 1 : begin - 1 + len(target)].log_softmax(-1).gather(1, target[:, None]).mean()
        for row, (begin, target) in enumerate(zip(rows.begins, rows.targets, strict=True))
    ]
    return torch.stack(each).mean()


@contextmanager
def _captured(module: nn.Module) -> Iterator[dict[str, Tensor]]:
    seen: dict[str, Tensor] = {}

    def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen["input"], seen["output"] = inputs[0].detach(), output.detach()

    handle = module.register_forward_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


@contextmanager
def _added(module: nn.Module, where: tuple[Tensor, Tensor], change: Tensor) -> Iterator[None]:
    def add(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output.index_put(where, change.expand(len(where[0]), -1), accumulate=True)

    handle = module.register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()
