"""Modes of a run: how many edits are applied together, and after which edits earlier cases are
asked again.
"""

import re
from typing import Literal, NamedTuple, Self

from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

END, NO_CHECKPOINT = "end", "none"
CHECKPOINT_EXAMPLES = (
    "give numbers of edits, such as 10,50, every:10, end, several of these with commas, or none"
)


_MODE = re.compile(r"(single|all|sequential)|(batch|sequential):(0*[1-9]\d*)", re.ASCII)


class Mode(NamedTuple):
    """Number of edits that are applied together; `size` is the number of cases in a batch or in one
    step of a sequence.

    `size` is 0 in the other modes, and in a sequence of single cases.
    """

    kind: Literal["single", "all", "batch", "sequential"]
    size: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `single`, `all`, `sequential`, `sequential:N` or `batch:N`.

        Raises:
            BadSettings: the mode is unknown.
        """
        if match := _MODE.fullmatch(text):
            kind, size = match[1] or match[2], int(match[3] or 0)
            if kind == "sequential" and size == 1:
                size = 0
            return cls(kind, size)  # type: ignore[arg-type]
        raise BadSettings(
            f"unknown mode '{text}': "
            f"{nearest(text, ['single', 'all', 'sequential', 'sequential:N', 'batch:N'])}"
        )

    def __str__(self) -> str:
        if self.size:
            return f"{self.kind}:{self.size}"
        return self.kind


_CHECKPOINT = re.compile(rf"{END}|(every:)?(0*[1-9]\d*)", re.ASCII)


class Checkpoints(NamedTuple):
    """Numbers of applied edits after which mode `sequential` asks all earlier cases again.

    They are given as a list of numbers, every n-th edit (0 for never), and the last edit.
    """

    listed: tuple[int, ...] = ()
    every: int = 0
    end: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse `10,50,100`, `every:N`, `end`, or several of these separated by commas; `none` and
        None give no checkpoint.

        Raises:
            BadSettings: the text is something else.
        """
        listed: set[int] = set()
        every, end = 0, False
        for part in () if text is None or text.strip() == NO_CHECKPOINT else text.split(","):
            match = _CHECKPOINT.fullmatch(part.strip())
            if match is None:
                raise BadSettings(
                    f"--reevaluate-at is '{text}', but '{part.strip()}' is not a checkpoint: "
                    f"{CHECKPOINT_EXAMPLES}."
                )
            if match[2] is None:
                end = True
            elif match[1]:
                every = int(match[2])
            else:
                listed.add(int(match[2]))
        return cls(tuple(sorted(listed)), every, end)

    def passed(self, before: int, now: int) -> bool:
        """Return True if a checkpoint is reached when the number of applied edits grows from
        `before` to `now`.
        """
        listed = any(before < number <= now for number in self.listed)
        return listed or bool(self.every and now // self.every > before // self.every)

    def number(self, edits: int) -> int:
        """Return the number of checkpoints in a run with this many edits."""
        listed = sum(number <= edits for number in self.listed)
        return listed + (edits // self.every if self.every else 0) + self.end

    def refuse_beyond(self, edits: int, setting: str) -> None:
        """Check that all listed checkpoints are reached by the edits of a setting.

        Raises:
            BadSettings: a listed checkpoint would never be reached.
        """
        if beyond := [number for number in self.listed if number > edits]:
            raise BadSettings(
                f"--reevaluate-at {beyond[0]} is never reached: setting '{setting}' has {edits} "
                "different edits. Give smaller numbers, or end for the last."
            )


NO_CHECKPOINTS = Checkpoints()
