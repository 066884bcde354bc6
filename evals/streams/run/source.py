"""Source of a run over a stream: the turns and questions of a file, and the places of questions."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.conversations.corrections import Corrections, read_corrections
from emend.evals.streams.loaders import load_stream
from emend.evals.streams.run.metrics import DEFINITION
from emend.evals.streams.stream_config import StreamConfig
from emend.evals.streams.turn import StreamItem, StreamQuestion, StreamSegment, Turn, segments
from emend.memory.edit import content_id


class StreamPlace(NamedTuple):
    """Turns, and the questions that are asked after them.

    Two places may have equal turns or equal question texts, but not the same question ids, from
    which the id of the place is made.
    """

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[StreamQuestion, ...]


@dataclass(frozen=True)
class StreamSource:
    """A stream of turns and questions.

    Attributes:
        file: a file, or a folder of conversations.
        items: all turns and questions, in order.
        places: the places at which questions are asked, each with the turns since the previous one.
        corrections: corrections from a published audit.
    """

    file: Path
    items: Sequence[StreamItem]
    places: Sequence[StreamPlace]
    corrections: Corrections

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """All turns by id."""
        return {item.id: item for item in self.items if isinstance(item, Turn)}

    @cached_property
    def questions(self) -> Mapping[str, StreamQuestion]:
        """All questions by id."""
        return {item.id: item for item in self.items if isinstance(item, StreamQuestion)}

    @cached_property
    def _ends(self) -> dict[str, int]:
        """The position of the last questions of each stream."""
        ordered = sorted(self.questions.values(), key=lambda question: question.place)
        return {question.stream: question.place for question in ordered}

    def is_last(self, question: StreamQuestion) -> bool:
        """Return whether the question is among the last of its stream."""
        return question.place == self._ends[question.stream]

    def evidence(self, question: StreamQuestion) -> Sequence[Turn]:
        """Return the turns that decide the answer to a question."""
        deciding = self.questions[question.id].evidence
        return [self.turns[turn] for turn in deciding if turn in self.turns]

    @property
    def provenance(self) -> dict[str, Any]:
        """The source files with their digests, and the numbers of turns and questions."""
        files = sorted(self.file.rglob("*.json")) if self.file.is_dir() else [self.file]
        names = {file.relative_to(self.file.parent).as_posix(): file for file in files}
        audited = [self.corrections.total.sentence] if self.corrections.entries else []
        return {
            "source": str(self.file),
            "files": {name: {"sha256": sha256(file)} for name, file in names.items()},
            "turns": len(self.turns),
            "questions": len(self.questions),
            "choices": [*DEFINITION.choices, *audited],
        }


def read_stream_source(file: str, config: StreamConfig) -> StreamSource:
    """Read a stream, and select the places at which a run asks.

    Args:
        file: a file or folder; see `load_stream`.
        config: its `limit` takes the first places, `places` spreads that many evenly, and
            `corrections` names an audit.

    Raises:
        MissingData: there is no such file.
        BadData: the file is malformed.
    """
    path = Path(file).expanduser()
    corrections = Corrections(())
    if config.corrections:
        corrections = read_corrections(Path(config.corrections).expanduser())
    items = load_stream(path, corrections)
    chosen: Iterable[StreamSegment] = list(segments(items))[: config.limit]
    if config.places is not None:
        chosen = spread(list(chosen), config.places, config.seed)
    places: dict[str, StreamPlace] = {}
    for segment in chosen:
        place = _place(segment)
        places.setdefault(place.id, place)
    return StreamSource(path, items, tuple(places.values()), corrections)


def _place(segment: StreamSegment) -> StreamPlace:
    id = content_id("place", [question.id for question in segment.questions])
    return StreamPlace(id, segment.turns, segment.questions)


def spread(parts: Sequence[StreamSegment], count: int, seed: int) -> Iterator[StreamSegment]:
    """Yield a random segment of each of `count` equal stretches, with all turns before it."""
    draw = random.Random(seed)  # random, since kinds of questions may recur at equal distances
    chosen = {int((number + draw.random()) * len(parts) / count) for number in range(count)}
    turns: list[Turn] = []
    for number, part in enumerate(parts):
        turns += part.turns
        if number in chosen:
            yield StreamSegment(tuple(turns), part.questions)
            turns = []
