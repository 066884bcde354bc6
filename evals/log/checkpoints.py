"""Checkpoints of mode `sequential`: after which edits all earlier cases are asked again."""

from typing import NamedTuple, Self

from emend.memory.errors import BadSettings

EXAMPLES = "give numbers of edits, such as 10,50,100, every:10, end, or several of these with commas, or none"
END, NONE = "end", "none"


class Checkpoints(NamedTuple):
    """Numbers of standing edits at which to stop and ask again: listed ones, every so many (0: none), the last."""

    listed: tuple[int, ...] = ()
    every: int = 0
    end: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """From `10,50,100`, `every:N`, `end`, or several of these with commas; `none` and None give no checkpoint.

        Raises:
            BadSettings: the text says something else.
        """
        listed: set[int] = set()
        every, end = 0, False
        for part in () if text is None or text.strip() == NONE else text.split(","):
            word, colon, size = part.strip().partition(":")
            number = size if colon else word
            if part.strip() == END:
                end = True
            elif (colon and word != "every") or not (number.isascii() and number.isdigit()) or int(number) < 1:
                raise BadSettings(f"--checkpoints is '{text}', and '{part.strip()}' is no checkpoint: {EXAMPLES}.")
            elif colon:
                every = int(number)
            else:
                listed.add(int(number))
        return cls(tuple(sorted(listed)), every, end)

    def passed(self, before: int, now: int) -> bool:
        """Whether one is reached when the number of standing edits grows; a case may bring several edits."""
        listed = any(before < number <= now for number in self.listed)
        return listed or bool(self.every and now // self.every > before // self.every)

    def refuse_beyond(self, standing: int, setting: str) -> None:
        """Compare with the number of edits that stand at the end.

        Raises:
            BadSettings: a listed checkpoint would never be reached.
        """
        beyond = [number for number in self.listed if number > standing]
        if beyond:
            raise BadSettings(
                f"--checkpoints {beyond[0]} is never reached: setting '{setting}' has {standing} different edits. "
                "Give smaller numbers, or end for the last."
            )


NO_CHECKPOINTS = Checkpoints()
