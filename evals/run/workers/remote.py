"""Results, baseline, journal, limiter and ledger of a run, as a worker uses them over its port."""

import time
from functools import partial
from typing import Any

from emend.agents.providers.journal import ReplyStore
from emend.agents.providers.prices import Prices
from emend.agents.providers.rate_limit import RateLimiter
from emend.agents.providers.usage import Ledger, ProviderUsage, untold_reply
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.records import json_line, unit_lines
from emend.evals.run.ask_unit import UnitResult
from emend.evals.run.baseline import Ask
from emend.evals.run.failures import error_line
from emend.evals.run.results import counts_of
from emend.evals.run.units import EditorPass, Unit
from emend.evals.run.workers.port import Port
from emend.memory.probe import Usage
from emend.memory.redaction import hide_in_bytes, hide_keys


class TaskResults:
    """Results of one task, sent to the driver."""

    def __init__(self, port: Port, task: int) -> None:
        self._port, self._task = port, task

    def unit(self, editor_pass: EditorPass, unit: Unit, result: UnitResult) -> None:
        """Send the lines of a finished unit."""
        records, events = map(hide_in_bytes, unit_lines(result.records, result.events))
        self._port.send("unit", self._task, unit.key, editor_pass.name, records, events, dict(counts_of(result)))

    def failure(self, editor_pass: EditorPass, unit: Unit, error: BaseException) -> None:
        """Send the line of a failed unit."""
        line, message = hide_in_bytes(json_line(error_line(editor_pass, unit, error))), hide_keys(str(error))
        self._port.send("failure", self._task, unit.key, editor_pass.name, line, type(error).__name__, message)

    def cost(self, line: dict[str, Any]) -> None:
        """Send a line of `costs.jsonl`."""
        self._port.send("cost", line)

    def probes(self, editor: str, share: float) -> None:
        """Send a share of a unit in progress."""
        self._port.send("probes", editor, share)

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Send the time that edits took."""
        self._port.send("edited", editor, seconds, units)


class RemoteBaseline:
    """Baseline answers of all workers, each asked for by the first one that needs it."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def get(self, key: str, ask: Ask) -> bytes:
        """Return an answer's line; ask if nobody else has done it."""
        line: bytes | None = self._port.request("claim", key)
        if line is not None:
            return line
        try:
            return ask(partial(self._add, key))
        except BaseException:
            self._port.send("abandon", key)
            raise

    def _add(self, key: str, answer: BaselineAnswer, usage: Usage) -> bytes:
        line = hide_in_bytes(json_line(answer))
        self._port.send("add_answer", key, line, usage)
        return line


class RemoteJournal(ReplyStore):
    """The run's journal of replies; `replays` says whether it may hold any for this worker."""

    def __init__(self, port: Port, replays: bool) -> None:
        self._port, self.replays = port, replays

    def read(self, key: str) -> str | None:
        """Ask the driver for a reply, if there may be one."""
        reply: str | None = self._port.request("find_reply", key) if self.replays else None
        return reply

    def write(self, key: str, reply: str) -> None:
        """Send a reply."""
        self._port.send("add_reply", key, reply)

    def forget(self, unit: str) -> None:
        """Do nothing: the driver forgets them when it has written the unit."""

    def warn(self, error: Exception) -> None:
        """Do nothing: the call is made again."""


class RemoteLimiter(RateLimiter):
    """The run's limiter, asked for each call's turn while calls are limited; `throttles` after a complaint."""

    def __init__(self, port: Port, rpm: float | None, tpm: float | None) -> None:
        super().__init__(rpm, tpm)
        self._port, self.throttles = port, False

    def acquire(self, tokens: int) -> float:
        """Wait for the turn of a call."""
        if self.throttles or self.rpm is not None or self.tpm is not None:
            self._port.request("turn", tokens)
        return time.monotonic()

    def correct(self, estimated: int, actual: int) -> None:
        """Tell a call's number of tokens, where it matters."""
        if self.tpm is not None:
            self._port.send("correct", estimated, actual)

    def passed(self) -> None:
        """Tell that the provider took a call."""
        self._port.send("passed")

    def slow_down(self, sent: float, pause: float = 0.0) -> None:
        """Tell that the provider complains."""
        self._port.send("complain", time.monotonic() - sent, pause)


class RemoteLedger(Ledger):
    """The run's ledger, which is asked before each call if there is a budget, and told of it otherwise."""

    def __init__(self, port: Port, prices: Prices | None, max_cost: float | None, max_calls: int | None) -> None:
        super().__init__(prices, max_cost, max_calls)
        self._port = port

    def start_call(self, model: str, is_retry: bool = False) -> None:
        """Ask for a call, or tell of it."""
        if self.max_cost is None and self.max_calls is None:
            self._port.send("start_call", model, is_retry)
        else:
            self._port.request("start_call", model, is_retry)

    def end_call(self, model: str, usage: dict[str, Any] | None, replied: bool) -> None:
        """Tell what came of a call."""
        self._port.send("end_call", model, usage, replied)
        if replied and usage is None and self.max_cost is not None:
            raise untold_reply(model)

    def add(self, model: str, usage: ProviderUsage) -> None:
        """Tell of more usage."""
        self._port.send("spend", model, usage)

    def add_sent(self, model: str, parameters: dict[str, Any]) -> bool:
        """Tell of the parameters that a call sends, once."""
        is_new = super().add_sent(model, parameters)
        if is_new:
            self._port.send("spend", model, ProviderUsage(sent=(parameters,)))
        return is_new
