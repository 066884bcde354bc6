"""Replays of what providers answered in public threads, through the real client, without the waits that it asks for."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.providers.journal import CallJournal, unit_scope
from emend.agents.providers.policy import CallPolicy
from emend.evals.evaluate.ask_unit import UNUSABLE
from emend.memory.errors import KeyRefused, ModelError, ProviderPaused, UnclearRejection
from tests.provider.models import asked_model
from tests.provider.protocols import Raw
from tests.provider.server import Provider

FILE = Path(__file__).parents[1] / "data" / "providers" / "rejections.jsonl"
"""Bodies with the thread that shows each (`owner/name#number`), names of accounts taken out."""
REJECTIONS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
RUNS = 3
"""A run, and two resumes."""
COLUMNS = ("body", "provider", "http", "error", "calls", "calls of two resumes", "seconds", "resume", "thread")


def requires_resume(row: dict[str, Any]) -> bool:
    """Whether a resume may differ from the run: a limit that passes is waited for each time alike, with many calls."""
    return bool(row["error"] != "RateLimited")


class Waits(threading.Event):
    """Stands in for the sleep of a policy: adds the seconds up, and takes none."""

    seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Count the seconds."""
        self.seconds += timeout or 0.0
        return self.is_set()

    def clock(self) -> float:
        """The time as it would be after the waits."""
        return time.monotonic() + self.seconds


class Replay(NamedTuple):
    """What became of a call: its error, the calls of the run and of each resume, and the seconds of the run's waits."""

    error: ModelError
    calls: tuple[int, ...]
    seconds: float


def replay(row: dict[str, Any], folder: Path) -> Replay:
    """Ask a provider that always answers so, and ask again as a resumed run does, as long as the unit is unfinished."""
    raised: list[ModelError] = []
    calls, seconds = [], []
    journal = CallJournal(folder)
    with Provider(lambda asked: Raw(row["body"], row["status"], row.get("headers", {}))) as provider:
        for _ in range(RUNS if requires_resume(row) else 1):
            waits = Waits()
            before = provider.count
            if not (raised and isinstance(raised[-1], UNUSABLE)):
                model = asked_model(provider, policy=CallPolicy(stopped=waits, clock=waits.clock))
                with suppress(ModelError), unit_scope(journal, "unit"):
                    try:
                        model.invoke("Who?")
                    except ModelError as error:
                        raised.append(error)
                        raise
            calls.append(provider.count - before)
            seconds.append(waits.seconds)
    journal.close()
    return Replay(raised[0], tuple(calls), seconds[0])


def measured_row(row: dict[str, Any], replayed: Replay) -> list[str]:
    """The row of the table in the documentation; without resumes where they are as the run."""
    run, *resumes = replayed.calls
    return [
        row["id"], row["provider"], str(row["status"]), type(replayed.error).__name__, str(run),
        " ".join(map(str, resumes)), str(round(replayed.seconds)), resume_of(replayed.error), row["source"],
    ]  # fmt: skip


def resume_of(error: ModelError) -> str:
    """What a resumed run does about the call."""
    if isinstance(error, UNUSABLE):
        return "unscored; not asked again"
    if isinstance(error, UnclearRejection):
        return "asked once more, then unscored"
    if isinstance(error, (KeyRefused, ProviderPaused)):
        return "the run had stopped; asked again"
    return "asked again"
