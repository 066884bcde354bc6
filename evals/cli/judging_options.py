"""Options of the commands that let chat models judge: who judges, and how they are loaded and asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.limits import Limits
from emend.evals.cli.options import Group, overrides_of
from emend.memory.errors import BadSettings
from emend.memory.redaction import refuse_secrets

if TYPE_CHECKING:
    from emend.agents.providers.policy import CallPolicy
    from emend.evals.judges.panel import Panel


@dataclass(frozen=True)
class Judges(Group):
    """The judges by name, and what holds for every call to them."""

    judge: Annotated[
        list[str],
        typer.Option("--judge", help="A chat model that judges, as provider:name; may be given several times."),
    ]
    repeats: Annotated[int, typer.Option(help="Ask each judge so many times.")] = 1
    retries: Annotated[int, typer.Option(help="How often an unreadable reply is asked for again.")] = 1
    concurrency: Annotated[int, typer.Option(min=1, help="Calls at the same time.")] = 4
    set_judge: Annotated[
        list[str] | None, typer.Option("--set", help="judge.key=value, how the judges are loaded and asked.")
    ] = None

    def panel(self, **more: Any) -> "Panel":
        """Who judges and how, each judge once.

        Raises:
            BadSettings: an impossible number.
        """
        from pydantic import ValidationError

        from emend.evals.judges.panel import Panel

        try:
            return Panel(judges=tuple(dict.fromkeys(self.judge)), repeats=self.repeats, retries=self.retries, **more)
        except ValidationError as error:
            wrong = error.errors()[0]
            name = ".".join(map(str, wrong["loc"]))
            raise BadSettings(f"--{name} {wrong['input']}: {wrong['msg']}.") from error

    @property
    def settings(self) -> dict[str, Any]:
        """What `--set judge.key=value` says.

        Raises:
            BadSettings: it names something else.
        """
        told = overrides_of(self.set_judge or [])
        if others := sorted(set(told) - {"judge"}):
            raise BadSettings(f"--set {others[0]}: only the judges can be set here: write --set judge.key=value.")
        refuse_secrets(told.get("judge", {}), "judge")
        return told.get("judge", {})


@contextmanager
def asking(limits: Limits) -> "Iterator[CallPolicy]":
    """Lends the policy of the limits, and lets go of it afterwards.

    Raises:
        BadSettings: an impossible number, or a file that cannot be used.
    """
    policy = limits.policy()
    try:
        yield policy
    finally:
        policy.close()
