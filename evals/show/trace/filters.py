"""Filters of a run's records, steps and answers; their fields are options of `emend trace`."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field

from emend.evals.case import Record
from emend.evals.log.lines import retries_of
from emend.evals.show.trace.verdicts import check_name
from emend.memory.edit import FrozenModel


class RecordFilter(FrozenModel):
    """Filter of records by probe, editor and kind; None selects all."""

    probe: str | None = Field(
        default=None, description="Show only this probe, given by the beginning of its id."
    )
    editor: str | None = Field(default=None, description="Show only this editor.")
    kind: str | None = Field(
        default=None, description="Show only probes of this kind, such as efficacy."
    )

    def fits(self, record: Record) -> bool:
        """Return True if the record matches all given fields."""
        return (
            (self.probe is None or record.probe.startswith(self.probe))
            and self.editor in (None, record.editor)
            and self.kind in (None, record.kind)
        )

    def with_full_name(self, editors: Sequence[str]) -> "RecordFilter":
        """Return the filter with its editor's full name, `my_graph:Quoter` for `quoter`.

        A name that belongs to none of the editors, or to several, stays as it is.
        """
        if self.editor is None or self.editor in editors:
            return self
        typed = self.editor.casefold()
        matches = [
            name
            for name in editors
            if typed in (name.casefold(), name.rpartition(":")[2].casefold())
        ]
        if len(matches) != 1:
            return self
        return self.model_copy(update={"editor": matches[0]})

    def __str__(self) -> str:
        fields = self.model_dump(exclude_none=True)
        return ", ".join(f"{name} '{value}'" for name, value in fields.items())


class StepFilter(FrozenModel):
    """Filter of steps; a step must match all given fields.

    `errors` selects steps that failed or retried a call, and probes with an unscored value.
    """

    node: str | None = Field(
        default=None, description="Show only steps of this node of the editor's graph."
    )
    grep: str | None = Field(
        default=None,
        description=(
            "Show only steps whose prompts, replies or state contain this text, ignoring case."
        ),
    )
    errors: bool = Field(default=False, description="Show only failed, retried and unscored steps.")

    @property
    def is_empty(self) -> bool:
        """True if the filter selects every step."""
        return self.node is None and not self.grep and not self.errors

    def __str__(self) -> str:
        parts = []
        if self.node is not None:
            parts = [f"node '{self.node}'"]
        if self.grep:
            parts += [f"text '{self.grep}'"]
        if self.errors:
            parts += ["--errors"]
        return " and ".join(parts)

    def fits(self, step: dict[str, Any]) -> bool:
        """Return True if the step matches."""
        return (
            (self.node is None or step["node"] == self.node)
            and (not self.grep or self._has_text([text_of(step)]))
            and (not self.errors or bool(step["error"] or retries_of(step)))
        )

    def fits_failure(self, line: dict[str, Any]) -> bool:
        """Return True if the message of a failed unit or one of its steps matches."""
        message = self.node is None and self._has_text([f"{line['error']}: {line['message']}"])
        return message or any(
            self.model_copy(update={"errors": False}).fits(step) for step in line["steps"]
        )

    def matching(
        self, steps: Sequence[dict[str, Any]], record: "Record"
    ) -> list[dict[str, Any]] | None:
        """Return the matching steps of a probe; None if neither a step nor the record matches.

        If `errors` is set and a probe is unscored without a failed step, return its last step,
        which shows what could not be scored.
        """
        fitting = [step for step in steps if self.fits(step)]
        if fitting or self.is_empty:
            return fitting
        if self.node is not None or not self._has_text(texts_of(record)):
            return None
        if self.errors:
            if record.unscored:
                return list(steps[-1:])
            return None
        return []

    def _has_text(self, texts: Sequence[str]) -> bool:
        return not self.grep or self.grep.casefold() in "\n".join(texts).casefold()

    def check_node(self, nodes: Iterable[str], where: str) -> None:
        """Check that the node of the filter exists.

        Raises:
            BadSettings: the node is unknown; the message names the nearest one.
        """
        check_name(f"{where} has no node", self.node, sorted(set(nodes)))


class AnswerFilter(FrozenModel):
    """Filter of answers by their scores; all given conditions must hold."""

    wrong: bool = Field(default=False, description="List the wrong answers with the expected ones.")
    right: bool = Field(default=False, description="List the right answers.")
    score: tuple[str, ...] = Field(
        default=(),
        description="List answers with this score, such as em=0 or magnitude<0.5; repeatable.",
    )
    where: str | None = Field(
        default=None,
        description=(
            "List probes by the outcomes of several editors, such as 'rag right, mello wrong' (or "
            "unscored)."
        ),
    )

    @property
    def is_empty(self) -> bool:
        """True if no condition is given."""
        return not (self.wrong or self.right or self.score or self.where)


ALL_RECORDS = RecordFilter()
ALL_STEPS = StepFilter()


def texts_of(record: "Record") -> list[str]:
    """Return the texts of a record."""
    texts = (
        record.prompt,
        *record.gold,
        record.rival,
        record.answer,
        record.reply,
        *record.unscored.values(),
    )
    return [text for text in texts if text]


def text_of(step: dict[str, Any]) -> str:
    """Join all texts of a step: node, update, prompts and replies, retries and errors."""
    texts = list(_texts(step["update"]))
    for call in step["calls"]:
        texts += [*_texts(call["messages"]), *_texts(call["reply"]), call["error"] or ""]
    for retry in retries_of(step):  # formatted as in traces
        status = ""
        if retry.status:
            status = f" (HTTP {retry.status})"
        texts.append(f"attempt {retry.attempt} failed: {retry.error}{status}")
    return "\n".join([step["node"], *texts, step["error"] or ""])


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings within a value, without the escapes of JSON, and other values as JSON."""
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
