"""Time and memory of writing one low-rank edit into one large matrix, beside the product formed whole in float64.

    python scripts/benchmarks/bench_low_rank.py --outputs 4096 --inputs 14336 --rank 1 --device cpu

The ways take turns on the same bfloat16 weights; the least of the rounds counts. Exits 1 where the weights differ in
more than one rounding of bfloat16.
"""

import argparse
import sys
from typing import Any

import torch

from emend.editors.cost import Meter
from emend.editors.numerics.low_rank import LowRankDelta


def whole(module: Any, delta: LowRankDelta) -> None:
    """The product and the sum as float64 matrices on the host."""
    product = delta.left.cpu().double() @ delta.right.cpu().double()
    with torch.no_grad():
        module.weight.copy_(module.weight.cpu().double() + product)


def in_pieces(module: Any, delta: LowRankDelta) -> None:
    """The editors' way."""
    delta.add_to(module)


def measure(way: Any, chosen: argparse.Namespace) -> tuple[float, float, int, torch.Tensor]:
    """Seconds, CPU seconds and peak memory of one edit, and some of the weights that it left."""
    torch.manual_seed(0)
    module: Any = torch.nn.Linear(chosen.inputs, chosen.outputs, bias=False, dtype=torch.bfloat16, device=chosen.device)
    module.device = module.weight.device
    left, right = torch.randn(chosen.outputs, chosen.rank), torch.randn(chosen.rank, chosen.inputs)
    delta = LowRankDelta(left / 30, right / 30)
    way(torch.nn.Linear(64, 64, dtype=torch.bfloat16), LowRankDelta(torch.ones(64, 1), torch.ones(1, 64)))
    with Meter(alone=True, lm=module) as meter:
        way(module, delta)
        if module.device.type == "cuda":
            torch.cuda.synchronize()
    return meter.seconds, meter.cpu_seconds, meter.peak_bytes or 0, module.weight.detach()[::7].float().cpu()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("outputs", 4096), ("inputs", 14336), ("rank", 1), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    results: dict[str, list[Any]] = {"whole": [], "in pieces": []}
    for _ in range(chosen.rounds):
        for name, way in (("whole", whole), ("in pieces", in_pieces)):
            results[name].append(measure(way, chosen))
    for name, rounds in results.items():
        seconds, cpu, peak = (min(each[place] for each in rounds) for place in range(3))
        print(f"{name}: {seconds:.3f} s, {cpu:.3f} CPU s, +{peak / 1e6:.0f} MB")
    one, other = (rounds[0][3] for rounds in results.values())
    differing = (one != other).float().mean().item()
    print(
        f"weights that differ: {differing:.2%}, by at most {((one - other).abs() / one.abs()).max().item():.2g} of one"
    )
    sys.exit(not torch.allclose(one, other, rtol=2**-7, atol=0))


if __name__ == "__main__":
    main()
