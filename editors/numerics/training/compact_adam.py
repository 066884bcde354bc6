"""Adam with three bytes of state per element: 8-bit averages, and 8 more bits of weights."""

import importlib.util
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam

from emend.memory.distribution import install_command
from emend.memory.errors import MissingExtra

# Number of elements that share a scale of their 8-bit averages.
BLOCK = 256
# Number of elements converted to float32 at a time, by device; chunks for a CPU fit its cache.
CHUNKS_BY_DEVICE = {"cpu": BLOCK << 10}
# The same for other devices.
CHUNK_ELEMENTS = BLOCK << 14


def check_eight_bit(editor: str) -> None:
    """Refuse a machine without the quantisation package.

    Raises:
        MissingExtra: bitsandbytes is not installed.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtra(
            f"editor '{editor}' needs a package for 8-bit averages: {install_command('qlora')}; or "
            f"train float32 copies with --set {editor}.optimizer=adam."
        )


class _State(NamedTuple):
    """Adam's state of one tensor: the step count, and per-element values for the next step."""

    step: Tensor
    low: Tensor
    """Bits 17 to 24 of each weight as float32, int8, for bfloat16 weights; otherwise empty."""
    codes: tuple[Tensor, Tensor]
    """8-bit codes of the gradient's average, and of the square root of its squared average."""
    scales: tuple[Tensor, Tensor]
    """Scales of the codes, one per block."""


class CompactAdam:
    """Adam that updates each tensor in place as soon as its gradient is available.

    Between steps the averages are quantised block-wise (Dettmers et al. 2022) by bitsandbytes. The
    second average is stored as its square root, since a small square would become 0 and cause a
    large step. Small steps would be lost in bfloat16, so eight more bits of each weight are stored.
    """

    def __init__(self, lr: float) -> None:
        from bitsandbytes.functional import create_dynamic_map

        self.lr = lr
        self._maps = create_dynamic_map(signed=True), create_dynamic_map(signed=False)
        self._states: dict[Tensor, _State] = {}

    @torch.no_grad()
    def step(
        self, weight: Tensor, gradient: Tensor, origin: Tensor | None = None, distance: float = 0.0
    ) -> None:
        """Update a contiguous leaf by its gradient.

        No element moves further than `distance` from `origin`.
        """
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
        """Take one step of Adam on a slice of a tensor, in float32."""
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
        step,
        torch.zeros(low, dtype=torch.int8, device=weight.device),
        (codes[0], codes[1]),
        (scales[0], scales[1]),
    )


def _joined(weight: Tensor, low: Tensor) -> Tensor:
    """Return the weights with their extra bits, float32."""
    whole = weight.to(torch.float32, copy=True)
    if len(low):
        whole.view(torch.int32).add_(low.to(torch.int32) << 8)
    return whole


def _low_bits(whole: Tensor, weight: Tensor) -> Tensor:
    """Return the rounding error of bfloat16 weights, in units of 256 float32 steps."""
    left = whole.view(torch.int32) - weight.float().view(torch.int32)
    return ((left + 128) >> 8).clamp_(-128, 127).to(torch.int8)
