"""Which steps of a trace are wanted: those of a node, those that hold a text, or those where something went wrong."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from emend.evals.case import Record
from emend.evals.log.events import retries_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


class Wanted(FrozenModel):
    """What is looked for; a step must fit all that is given.

    `node` is a node's name; `grep` a text that the step holds anywhere, upper and lower case alike; `errors` wants
    steps that failed or had to ask a provider again, and probes with an unscored value.
    """

    node: str | None = None
    grep: str | None = None
    errors: bool = False

    @property
    def everything(self) -> bool:
        """Nothing in particular is looked for."""
        return self.node is None and not self.grep and not self.errors

    @property
    def told(self) -> str:
        """In words, for messages."""
        parts = [f"node '{self.node}'"] if self.node is not None else []
        parts += [f"text '{self.grep}'"] if self.grep else []
        return " and ".join([*parts, *(["--errors"] if self.errors else [])])

    def fits(self, step: dict[str, Any]) -> bool:
        """Whether a step is wanted."""
        return (
            (self.node is None or step["node"] == self.node)
            and (not self.grep or self.grep.casefold() in text_of(step).casefold())
            and (not self.errors or bool(step["error"] or retries_of(step)))
        )

    def steps_of(self, steps: Sequence[dict[str, Any]], record: Record | None = None) -> list[dict[str, Any]] | None:
        """The wanted steps of a probe; None when nothing of the probe is wanted.

        Of a probe that is unscored, and whose steps all went well, the last one shows what could not be scored.
        """
        found = [step for step in steps if self.fits(step)]
        if found or self.everything:
            return found
        if record is None or self.node is not None:
            return None
        if self.errors and record.unscored and (not self.grep or self._in_record(record)):
            return list(steps[-1:])
        return [] if self.grep and not self.errors and self._in_record(record) else None

    def _in_record(self, record: Record) -> bool:
        return bool(self.grep) and str(self.grep).casefold() in "\n".join(self.said_in(record)).casefold()

    @staticmethod
    def said_in(record: Record) -> tuple[str, ...]:
        """The texts of a record in which one may look."""
        said = (record.prompt, *record.gold, record.rival, record.answer, record.reply, *record.unscored.values())
        return tuple(text for text in said if text)

    def check_node(self, known: Iterable[str], where: str) -> None:
        """Refuse a node that there is not.

        Raises:
            BadSettings: names the nearest.
        """
        names = sorted(set(known))
        if self.node is not None and self.node not in names:
            raise BadSettings(f"{where} has no node '{self.node}': {nearest(self.node, names)}")


def text_of(step: dict[str, Any]) -> str:
    """All that a step holds, as text: what it changed, what models were asked and said, what was retried, its error."""
    texts = list(_texts(step["update"]))
    for call in step["calls"]:
        texts += [*_texts(call["messages"]), *_texts(call["reply"]), call["error"] or ""]
    for again in retries_of(step):  # as a trace shows them
        texts.append(
            f"attempt {again.attempt} failed: {again.error}{f' (HTTP {again.status})' if again.status else ''}"
        )
    return "\n".join([step["node"], *texts, step["error"] or ""])


def _texts(value: Any) -> Iterable[str]:
    """The strings within, so that a text is found as it reads and not as JSON writes it; numbers as JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
    else:
        yield json.dumps(value)
