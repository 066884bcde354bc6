"""Filters of a trace: records by probe, editor and kind; steps by node, by text, or by what went wrong."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from emend.evals.log.events import retries_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from emend.evals.case import Record  # imports the graphs' libraries, which the command's help needs not


class RecordFilter(FrozenModel):
    """Selects records by probe, editor and kind; None fits all."""

    probe: str | None = Field(default=None, description="Show only this probe: the beginning of its id.")
    editor: str | None = Field(default=None, description="Show only this editor.")
    kind: str | None = Field(default=None, description="Show only probes of this kind, such as efficacy.")

    def fits(self, record: "Record") -> bool:
        """Return whether the record fits everything that is given."""
        return (
            (self.probe is None or record.probe.startswith(self.probe))
            and self.editor in (None, record.editor)
            and self.kind in (None, record.kind)
        )

    def __str__(self) -> str:
        fields = self.model_dump(exclude_none=True)
        return ", ".join(f"{name} '{value}'" for name, value in fields.items())


class StepFilter(FrozenModel):
    """Selects steps; a step must fit everything that is given.

    `errors` selects steps that failed or had to call a provider again, and probes with an unscored value.
    """

    node: str | None = Field(default=None, description="Show only steps of this node of the editor's graph.")
    grep: str | None = Field(
        default=None, description="Show only steps whose prompts, replies or state contain this text, ignoring case."
    )
    errors: bool = Field(default=False, description="Show only what failed, was retried or is unscored.")

    @property
    def is_empty(self) -> bool:
        """True if every step fits."""
        return self.node is None and not self.grep and not self.errors

    def __str__(self) -> str:
        parts = [f"node '{self.node}'"] if self.node is not None else []
        parts += [f"text '{self.grep}'"] if self.grep else []
        return " and ".join([*parts, *(["--errors"] if self.errors else [])])

    def fits(self, step: dict[str, Any]) -> bool:
        """Return whether the step fits."""
        return (
            (self.node is None or step["node"] == self.node)
            and (not self.grep or self._has_text([text_of(step)]))
            and (not self.errors or bool(step["error"] or retries_of(step)))
        )

    def fits_failure(self, line: dict[str, Any]) -> bool:
        """Return whether a failed unit fits: by its message, or by one of the steps that led to it."""
        message = self.node is None and self._has_text([f"{line['error']}: {line['message']}"])
        return message or any(self.model_copy(update={"errors": False}).fits(step) for step in line["steps"])

    def matching(self, steps: Sequence[dict[str, Any]], record: "Record") -> list[dict[str, Any]] | None:
        """Return the fitting steps of a probe; None when nothing of the probe fits.

        If a probe is unscored, and all its steps went well, the last one shows what could not be scored.
        """
        fitting = [step for step in steps if self.fits(step)]
        if fitting or self.is_empty:
            return fitting
        if self.node is not None or not self._has_text(texts_of(record)):
            return None
        if self.errors:
            return list(steps[-1:]) if record.unscored else None
        return []

    def _has_text(self, texts: Sequence[str]) -> bool:
        return not self.grep or self.grep.casefold() in "\n".join(texts).casefold()

    def check_node(self, known: Iterable[str], where: str) -> None:
        """Check that the node exists.

        Raises:
            BadSettings: there is no such node; names the nearest.
        """
        names = sorted(set(known))
        if self.node is not None and self.node not in names:
            raise BadSettings(f"{where} has no node '{self.node}': {nearest(self.node, names)}")


class AnswerFilter(FrozenModel):
    """Selects answers by how they were scored; all conditions that are given must hold."""

    wrong: bool = Field(default=False, description="List the wrong answers, with what would be right.")
    right: bool = Field(default=False, description="List the right answers.")
    score: tuple[str, ...] = Field(
        default=(), description="List answers with such a score, as em=0 or magnitude<0.5; repeatable."
    )
    where: str | None = Field(
        default=None,
        description="List probes by the answers of several editors, as 'rag right, mello wrong' (or unscored).",
    )

    @property
    def is_empty(self) -> bool:
        """True if nothing is selected by it."""
        return not (self.wrong or self.right or self.score or self.where)


ALL_RECORDS = RecordFilter()
ALL_STEPS = StepFilter()


def texts_of(record: "Record") -> list[str]:
    """List the texts of a record."""
    texts = (record.prompt, *record.gold, record.rival, record.answer, record.reply, *record.unscored.values())
    return [text for text in texts if text]


def text_of(step: dict[str, Any]) -> str:
    """Join all texts of a step: its update, prompts and replies of models, retries, and its error."""
    texts = list(_texts(step["update"]))
    for call in step["calls"]:
        texts += [*_texts(call["messages"]), *_texts(call["reply"]), call["error"] or ""]
    for retry in retries_of(step):  # as a trace shows them
        status = f" (HTTP {retry.status})" if retry.status else ""
        texts.append(f"attempt {retry.attempt} failed: {retry.error}{status}")
    return "\n".join([step["node"], *texts, step["error"] or ""])


def _texts(value: Any) -> Iterator[str]:
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
