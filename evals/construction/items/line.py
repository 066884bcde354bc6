"""Item lines of a construction run: the input of the graph and its outcome."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from emend.evals.jobs.line import JobLine
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_job_lines, read_records
from emend.memory.edit import FrozenModel, content_id

JOB = "construct"
# Kind of an item line.
ITEM = "item"
SETTING = "items"
# Editor name under which items are counted and shown.
ROW = "build"
KEPT = "kept"
# Prefix of a filter's value: 1.0 if an item that reached the filter passed it, else 0.0.
PASSES = "passes_"
# Tag with the 0-based position of an item in its source.
POSITION = "place"
Verdict = Literal["kept", "rejected", "unscored"]


class FilterRejection(FrozenModel):
    """Rejection of a text by a filter, with the reason and the number of the attempt."""

    filter: str
    reason: str
    attempt: int = 1


class BuildItem(FrozenModel):
    """An item of a source.

    Attributes:
        position: 0-based position in the source.
        text: human-readable line.
        fields: input fields of the graph.
    """

    position: int
    text: str
    fields: dict[str, Any]

    @cached_property
    def id(self) -> str:
        """Identifier computed from the content."""
        return content_id("item", self.position, self.text, self.fields)


class ItemOutcome(NamedTuple):
    """Outcome of an item: a result, the rejections of its attempts, or the reason for neither.

    Attributes:
        result: output of the graph; None if the item is rejected or unscored.
        passed: outcome of each filter for the last attempt that reached it.
        tries: number of texts that reached each filter, for items with several texts.
        rejections: rejections of all attempts.
        attempts: number of texts that were written.
        unscored: reason why the graph did not finish, such as an unusable reply; empty if it did.
    """

    result: dict[str, Any] | None = None
    passed: Mapping[str, bool] = {}
    tries: Mapping[str, int] = {}
    rejections: tuple[FilterRejection, ...] = ()
    attempts: int = 1
    unscored: str = ""

    @property
    def values(self) -> dict[str, float]:
        """1.0 or 0.0 for whether the item is kept and for each filter; empty if unscored."""
        if self.unscored:
            return {}
        filters = {f"{PASSES}{name}": float(passed) for name, passed in self.passed.items()}
        return {KEPT: float(self.result is not None)} | filters


class ItemLine(JobLine):
    """Line with the outcome of an item.

    Attributes:
        text: human-readable line of the item.
        item: input fields of the graph.
        result: output of the graph; None if the item is rejected or unscored.
        rejections: rejections of all attempts.
        tries: number of texts that reached each filter, for items with several texts.
        attempts: number of texts that were written.
    """

    job: str = JOB
    text: str
    item: dict[str, Any]
    result: dict[str, Any] | None = None
    rejections: tuple[FilterRejection, ...] = ()
    tries: dict[str, int] = {}
    attempts: int = 1

    @property
    def position(self) -> int:
        """0-based position of the item in its source."""
        return int(self.tags.get(POSITION, 0))

    @property
    def passed(self) -> dict[str, bool]:
        """Outcome of each filter for the last attempt that reached it."""
        filters = {name: value for name, value in self.values.items() if name.startswith(PASSES)}
        return {name.removeprefix(PASSES): bool(value) for name, value in filters.items()}

    @property
    def verdict(self) -> Verdict:
        """Decision of the filters on the item."""
        if self.unscored:
            return "unscored"
        return "rejected" if self.result is None else "kept"

    @property
    def rejected_by(self) -> str:
        """Filter that rejected the last attempt; `unknown` if no rejection is recorded."""
        return self.rejections[-1].filter if self.rejections else "unknown"


def read_item_lines(folder: Path) -> list[ItemLine]:
    """Return the item lines of a run in source order.

    An incomplete last line of a killed process is ignored. Folders of earlier versions are read
    too.

    Args:
        folder: run folder of the construction.

    Raises:
        BadData: a line is damaged; the message names file, line and field.
    """
    is_current = Manifest.read(folder).job == JOB
    lines = read_job_lines(folder, ItemLine) if is_current else _old_lines(folder)
    return sorted(lines, key=lambda line: line.position)


class _OldOutcome(FrozenModel):
    """Outcome of an item as earlier versions stored it, as JSON text in a record's answer."""

    result: dict[str, Any] | None = None
    passed: dict[str, bool] = {}
    rejections: tuple[FilterRejection, ...] = ()
    attempts: int = 1
    item: dict[str, Any] = {}


def _old_lines(folder: Path) -> Iterator[ItemLine]:
    """Yield the lines of an old folder, whose items are records of an editor named `build`."""
    shared = JobLine.model_fields.keys() - {"job", "values", "unscored"}
    for record in read_records(folder):
        is_outcome = bool(record.answer and record.values)
        outcome = (
            _OldOutcome.model_validate_json(record.answer or "") if is_outcome else _OldOutcome()
        )
        yield ItemLine(
            **{name: getattr(record, name) for name in shared},
            values=record.values,
            unscored={}
            if is_outcome
            else record.unscored or {KEPT: "the answer is not the outcome of a construction"},
            text=record.prompt,
            item=outcome.item,
            result=outcome.result,
            rejections=outcome.rejections,
            attempts=outcome.attempts,
        )
