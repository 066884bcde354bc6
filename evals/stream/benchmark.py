"""A stream as a benchmark: each place with questions is a case, its turns are edits, and its questions are probes."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration, EditorContext
from emend.editors.registry import EDITORS
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, check_request, known_options
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.metrics.stream_answers import ABSTAINS, REASONS, UNKNOWN
from emend.evals.stream.files import StreamSegment, segments
from emend.evals.stream.loaders.load import load_stream
from emend.evals.stream.system import SYSTEMS
from emend.evals.stream.system_editor import StreamPlan, SystemEditorFactory
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.registry import nearest

FILE, BUDGET, PLACES = "file", "budget", "places"
SETTING = "turns"
DEFINITION = Definition.beside(__file__)


class Stream:
    """A stream of turns and questions in a file; memory systems take the place of editors.

    Args:
        data: None; the file is an option.
        options: `file`, `budget` of tokens a question, and `places`, the number of those to ask at.

    Raises:
        MissingData: there is no such file.
        BadData: it is malformed.
        BadSettings: an option is wrong, or the file is not named.
    """

    name: ClassVar[str] = "stream"
    settings: ClassVar[tuple[str, ...]] = (SETTING,)
    wording: ClassVar[str] = "messages"
    mode: ClassVar[str] = "sequential"

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = known_options(self.name, options, (FILE, BUDGET, PLACES))
        if not self.options.get(FILE):
            raise BadSettings("no stream is named: give its file, or make one with emend stream new.")
        self.file = Path(self.options[FILE]).expanduser()
        self.budget = _number(self.options.get(BUDGET), BUDGET)
        self.places = _number(self.options.get(PLACES), PLACES)
        self.items = load_stream(self.file)

    @cached_property
    def plan(self) -> StreamPlan:
        """The turns and questions by id, and the budget."""
        turns = {item.id: item for item in self.items if isinstance(item, Turn)}
        questions = {item.id: item for item in self.items if isinstance(item, StreamQuestion)}
        return StreamPlan(turns, questions, self.budget)

    @cached_property
    def _segments(self) -> list[StreamSegment]:
        return list(segments(self.items))

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The places with questions in order, each with the turns since the place before; a limit takes the first.

        With the option `places` so many of them, spread evenly.
        """
        check_request(self.name, setting, self.settings, limit)
        parts = self._segments[:limit]
        return map(_case, parts if self.places is None else _spread(parts, self.places, seed))

    def metrics(self) -> Sequence[Metric]:
        """Accuracy by kind of question, wrong answers by reason, and what the memory needs."""
        return DEFINITION.metrics

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """None: a stream has no solved examples."""
        return ()

    def load_editor(self, name: str) -> Callable[[EditorContext], Any]:
        """The memory system of that name, as an editor; or else the editor.

        Raises:
            BadSettings: there is neither, or it cannot be loaded.
        """
        if SYSTEMS.installed(name):
            return SystemEditorFactory(name, SYSTEMS.load(name), self.plan)
        if EDITORS.installed(name):
            return EDITORS.load(name)
        if ":" not in name:
            known = [*SYSTEMS.names(), *EDITORS.names()]
            raise BadSettings(f"unknown memory system '{name}': {nearest(name, known)}")
        return SystemEditorFactory(name, SYSTEMS.load(name), self.plan)

    @property
    def provenance(self) -> dict[str, Any]:
        """The file with its digest, and how much it has."""
        return {
            "source": str(self.file),
            "files": {self.file.name: {"sha256": sha256(self.file)}},
            "turns": len(self.plan.turns),
            "questions": len(self.plan.questions),
            "choices": list(DEFINITION.choices),
        }


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadSettings(f"--{name} is '{text}': give a number of 1 or more, or leave it out.")
    return int(text)


def _spread(parts: Sequence[StreamSegment], count: int, seed: int) -> Iterator[StreamSegment]:
    """So many parts, one drawn from each of equal stretches, with all turns since the one before."""
    draw = random.Random(seed)  # kinds of questions may recur at equal distances
    chosen = {int((number + draw.random()) * len(parts) / count) for number in range(count)}
    turns: list[Turn] = []
    for number, part in enumerate(parts):
        turns += part.turns
        if number in chosen:
            yield StreamSegment(tuple(turns), part.questions)
            turns = []


def _case(segment: StreamSegment) -> Case:
    edits = tuple(map(_edit, segment.turns))
    probes = tuple(map(as_probe, segment.questions))
    # The turns of two places may be the same, and so may be their questions; what came before them is not.
    return Case(id=content_id("place", [probe.id for probe in probes]), edits=edits, probes=probes)


def _edit(turn: Turn) -> Edit:
    """A turn as an editor of Emend sees it: a dated text."""
    return Edit(id=turn.id, form="document", text=turn.text or " ", time=turn.date or None)


def as_probe(question: StreamQuestion) -> Probe:
    """A question as a run asks it."""
    wrong = question.wrong
    return Probe(
        id=question.id,
        kind=question.kind,
        prompt=f"[{question.date}] {question.user}: {question.text}" if question.date else question.text,
        style="question",
        gold=(UNKNOWN,) if question.abstains else question.gold,
        choices=tuple(each.value for each in wrong),
        edit_ids=question.evidence,
        scorers=("memory",),
        query=question.text,
        subject=question.subject,
        tags={
            ABSTAINS: question.abstains,
            REASONS: ",".join(each.why for each in wrong),
            "hops": question.hops,
            "age": question.age,
            "place": question.place,
        },
    )
