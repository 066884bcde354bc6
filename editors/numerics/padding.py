"""Padding of token ids into one batch."""

from collections.abc import Sequence

import torch
from torch import Tensor


def padded(rows: Sequence[Sequence[int]], pad: int | None, left: bool = False) -> tuple[Tensor, Tensor]:
    """Ids and mask, shape (rows, longest), int64 on the CPU; padded on the right unless `left`.

    Args:
        rows: some may be empty, but not all.
        pad: the id of padding, whose mask is 0; None takes 0.
        left: pad on the left, so that rows end in the same column.
    """
    width = max(map(len, rows))
    ids, mask = torch.full((len(rows), width), pad or 0), torch.zeros(len(rows), width, dtype=torch.long)
    for line, row in enumerate(rows):
        if row:
            columns = slice(width - len(row), width) if left else slice(0, len(row))
            ids[line, columns], mask[line, columns] = torch.tensor(row), 1
    return ids, mask
