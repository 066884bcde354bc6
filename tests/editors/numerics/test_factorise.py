from typing import Any

import pytest
import torch

from emend.editors.numerics.factorise import on_device


class Matrix:
    """A tensor of a machine with a GPU, which has memory for so many numbers."""

    def __init__(self, size: int, memory: int, place: str = "cpu") -> None:
        self.size, self.memory, self.place = size, memory, place

    def to(self, device):
        if self.size > self.memory:
            raise torch.OutOfMemoryError
        return Matrix(self.size, self.memory, device.type)

    def cpu(self):
        return Matrix(self.size, self.memory)


@pytest.mark.parametrize(
    ("device", "memory", "places"),
    [
        ("cuda", 10, ["cuda"]),
        ("cuda", 2, ["cpu"]),
        ("mps", 10, ["cpu"]),
        ("cpu", 10, ["cpu"]),
        ("cuda", 5, ["cuda", "cpu"]),
    ],
)
def test_results_are_computed_on_a_gpu_that_has_the_memory_and_end_on_the_cpu(device, memory, places):
    computed = []

    def compute(matrix, other):
        assert matrix.place == other.place
        computed.append(matrix.place)
        if matrix.place == "cuda" and 2 * matrix.size > memory:
            raise torch.OutOfMemoryError
        return matrix

    matrices: list[Any] = [Matrix(4, memory), Matrix(1, memory)]
    result: Any = on_device(torch.device(device), compute, *matrices)
    assert result.place == "cpu" and computed == places
