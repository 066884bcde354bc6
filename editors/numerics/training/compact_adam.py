"""Adam in three bytes an element: averages in 8 bits, and 8 further bits of each bfloat16 weight."""

import importlib.util
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam

from emend.memory.distribution import install_command
from emend.memory.errors import MissingExtra

BLOCK = 256
"""Elements that share the scale of their 8-bit averages."""
CHUNKS_BY_DEVICE = {"cpu": BLOCK << 10}
"""Elements of a tensor that are held in float32 at a time, by device: those that a CPU's cache holds."""
CHUNK_ELEMENTS = BLOCK << 14
"""Those of other devices."""


def check_eight_bit(editor: str) -> None:
    """Refuse a machine without the package that quantises.

    Raises:
        MissingExtra: bitsandbytes is not installed.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtra(
            f"editor '{editor}' needs a package for 8-bit averages: {install_command('qlora')}; or train float32 "
            f"copies with --set {editor}.optimizer=adam."
        )


class _State(NamedTuple):
    """Adam's state of one tensor: the number of steps, and by element what the next step needs."""

    step: Tensor
    low: Tensor
    """Bits 17 to 24 of each weight, int8; empty for float32 weights, which have all of theirs."""
    codes: tuple[Tensor, Tensor]
    """The gradient's average, and the root of its square's, as 8-bit codes."""
    scales: tuple[Tensor, Tensor]
    """By block, what the codes are multiplied by."""


class CompactAdam:
    """Adam's steps on tensors in place, on each as soon as its gradient is there.

    Between steps the averages are quantised in blocks (Dettmers et al. 2022), by bitsandbytes; the root of the second
    one, since a small square would become 0 and its step large. A small step is lost in bfloat16, so that eight bits of
    what rounding leaves are kept beside it.
    """

    def __init__(self, lr: float) -> None:
        from bitsandbytes.functional import create_dynamic_map

        self.lr = lr
        self._maps = create_dynamic_map(signed=True), create_dynamic_map(signed=False)
        self._states: dict[Tensor, _State] = {}

    @torch.no_grad()
    def step(self, weight: Tensor, gradient: Tensor, origin: Tensor | None = None, distance: float = 0.0) -> None:
        """Move a contiguous leaf by its gradient; `distance` bounds each element's change from the origin."""
        self._maps = self._maps[0].to(weight.device), self._maps[1].to(weight.device)
        state = self._states[weight] = self._states.get(weight) or _new_state(weight)
        numbers, gradients = weight.detach().view(-1), gradient.reshape(-1)
        size = CHUNKS_BY_DEVICE.get(weight.device.type, CHUNK_ELEMENTS)
        for start in range(0, len(numbers), size):
            part = slice(start, start + size)
            whole = _joined(numbers[part], state.low[part])
            self._move(whole, gradients[part].float(), state, part)
            if origin is not None:
                middle = origin.view(-1)[part].to(whole)
                whole.clamp_(middle - distance, middle + distance)
            numbers[part] = whole
            if len(state.low):
                state.low[part] = _low_bits(whole, numbers[part])
        state.step.add_(1)

    def _move(self, whole: Tensor, gradient: Tensor, state: _State, part: slice) -> None:
        """One step of Adam on a part of a tensor, in float32."""
        from bitsandbytes.functional import dequantize_blockwise, quantize_blockwise

        blocks = slice(part.start // BLOCK, part.stop // BLOCK)
        average, root = (
            dequantize_blockwise(codes[part], absmax=scales[blocks], code=code, blocksize=BLOCK)
            for codes, scales, code in zip(state.codes, state.scales, self._maps, strict=True)
        )
        square, fused = root.square_(), whole.device.type in ("cpu", "cuda")
        adam(
            *([whole], [gradient], [average], [square], [], [state.step.clone()]),
            foreach=False,
            fused=fused,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.lr,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
        for place, tensor in enumerate((average, square.sqrt_())):
            codes, quantised = quantize_blockwise(tensor, code=self._maps[place], blocksize=BLOCK)
            state.codes[place][part] = codes
            state.scales[place][blocks] = quantised.absmax


def _new_state(weight: Tensor) -> _State:
    size = weight.numel()
    low = size if weight.dtype == torch.bfloat16 else 0
    codes = [torch.zeros(size, dtype=torch.uint8, device=weight.device) for _ in range(2)]
    scales = [torch.zeros(-(-size // BLOCK), device=weight.device) for _ in range(2)]
    step = torch.zeros((), device=weight.device)
    return _State(
        step, torch.zeros(low, dtype=torch.int8, device=weight.device), (codes[0], codes[1]), (scales[0], scales[1])
    )


def _joined(weight: Tensor, low: Tensor) -> Tensor:
    """The weights with their further bits, float32."""
    whole = weight.to(torch.float32, copy=True)
    if len(low):
        whole.view(torch.int32).add_(low.to(torch.int32) << 8)
    return whole


def _low_bits(whole: Tensor, weight: Tensor) -> Tensor:
    """The difference of the weights in float32 and as rounded, in units of its eighth bit."""
    left = whole.view(torch.int32) - weight.float().view(torch.int32)
    return ((left + 128) >> 8).clamp_(-128, 127).to(torch.int8)
