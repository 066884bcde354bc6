"""Value search for long targets: one value at the token before each window of target tokens.

This is `compute_z` of UnKE (Deng et al. 2024), where one window is the whole target, and of AnyEdit
(Jiang et al. 2025, Algorithm 1), where a window's value is searched for with the values of earlier
windows applied.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.prefixes import Ids
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.locate import Located
from emend.editors.numerics.value_search import ValueDescentSettings, ValueJob, optimise_values
from emend.memory.edit import Edit


class LongTarget(NamedTuple):
    """Token ids of a prompt with its target, which starts at `start`."""

    edit: Edit
    ids: Ids
    start: int


class WindowValue(NamedTuple):
    """The change that makes a window's tokens probable, and the original state; (width,) each."""

    place: int
    """Position of the token before the window."""
    change: Tensor
    original: Tensor


def split_windows(start: int, end: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return first token and end of each window from `start` to `end`; the last may be shorter.

    >>> split_windows(3, 10, 3, 0), split_windows(3, 10, 5, 2)
    ([(3, 6), (6, 9), (9, 10)], [(3, 8), (6, 10)])
    """
    windows = [(start, min(start + size, end))]
    while windows[-1][1] < end:
        first = windows[-1][0] + size - overlap
        windows.append((first, min(first + size, end)))
    return windows


def search_windows(
    lm: CausalLM,
    paths: Architecture,
    targets: Sequence[LongTarget],
    windows: Sequence[Sequence[tuple[int, int]]],
    layer: int,
    settings: ValueDescentSettings,
) -> list[list[WindowValue]]:
    """Return the values of each target's windows, in order.

    The first windows of all targets are optimised in one batch, then the second ones, and so on.

    Raises:
        ModelError: a loss is not finite; names step, loss and edit.
    """
    values: list[list[WindowValue]] = [[] for _ in targets]
    for number in range(max(map(len, windows))):
        which = [n for n, of_target in enumerate(windows) if number < len(of_target)]
        jobs: list[ValueJob] = []
        for n in which:
            first, end = windows[n][number]
            fixed = tuple((value.place, value.change) for value in values[n])
            row = Located(targets[n].ids[:end], first - 1, first)
            jobs.append(ValueJob(len(jobs), targets[n].edit, [row], fixed=fixed))
        result = optimise_values(lm, paths, jobs, layer, "block", settings)
        for n, job, change, original in zip(which, jobs, result.change, result.value, strict=True):
            values[n].append(WindowValue(job.prompts[0].subject, change, original))
    return values
