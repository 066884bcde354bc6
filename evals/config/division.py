"""Division of a run into shares with their own folders, and among the workers of one folder."""

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from emend.evals.config.limits import Limits

MAX_SHARES = 1_000
_SHARE = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)


class Share(NamedTuple):
    """One of `of` shares of a run, each evaluated by its own process; `number` counts from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `I/N`.

        Raises:
            BadSettings: the text is malformed, or I is not from 1 to N.
        """
        match = _SHARE.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MAX_SHARES:
            raise BadSettings(
                f"--share is '{text[:40]}': write I/N, such as 1/8 for the first of eight shares, "
                f"with I from 1 to N and N at most {MAX_SHARES}."
            )
        return cls(int(match[1]), int(match[2]))

    def limits(self, whole: "Limits") -> dict[str, Any]:
        """Return the limits of this share, such that the limits of all shares add up to the whole.

        Raises:
            BadSettings: there are fewer calls than shares.
        """
        limits: dict[str, Any] = {}
        for name in ("rpm", "tpm", "max_cost"):
            if (limit := getattr(whole, name)) is not None:
                limits[name] = limit / self.of
        if whole.max_calls is not None:
            if 0 < whole.max_calls < self.of:
                raise BadSettings(
                    f"--max-calls {whole.max_calls} leaves some of {self.of} shares without a "
                    "call: give more."
                )
            limits["max_calls"] = (whole.max_calls + self.of - self.number) // self.of
        return limits

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


_WORKERS = re.compile(r"auto|threads|processes:(?!0+$)([0-9]{1,3})|ray(?::(.+))?", re.DOTALL)


class WorkersSpec(NamedTuple):
    """Where units are evaluated: kind of workers, number of processes, address of a Ray cluster,
    and GPUs per Ray worker.
    """

    kind: Literal["auto", "threads", "processes", "ray"]
    number: int = 0
    address: str = ""
    gpus: float = 0.0

    @classmethod
    def parse(cls, text: str, gpus: float = 0.0) -> Self:
        """Parse `auto`, `threads`, `processes:N`, `ray` or `ray:ADDRESS`, with the GPUs of each
        worker.

        Raises:
            BadSettings: the text is something else, or GPUs are requested without Ray.
        """
        kind, match = text.partition(":")[0], _WORKERS.fullmatch(text)
        if match is None:
            kinds = ["auto", "threads", "processes:N", "ray", "ray:ADDRESS"]
            if kind == "processes":
                known = "N is a number from 1 to 999."
            else:
                known = nearest(text, kinds)
            raise BadSettings(f"unknown --workers '{text}': {known}")
        if not 0 <= gpus < float("inf") or (gpus and kind != "ray"):
            raise BadSettings(
                f"--gpus-per-worker {gpus:g} with --workers {text}: give a number of GPUs, and "
                "--workers ray, which assigns them."
            )
        return cls(kind, int(match[1] or 0), match[2] or "", gpus)  # type: ignore[arg-type]

    def __str__(self) -> str:
        rest = str(self.number) if self.number else self.address
        if rest:
            return f"{self.kind}:{rest}"
        return self.kind
