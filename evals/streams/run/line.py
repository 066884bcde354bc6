"""Result lines of a run over a stream: observed turns, and answers to questions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from emend.evals.case import Record
from emend.evals.jobs.line import JobLine
from emend.evals.log.lines import TURNS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_job_lines, read_records
from emend.evals.streams.turn import WrongAnswer
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

JOB = "stream"
MODE = "sequential"


class StreamLine(JobLine):
    """Base class of the lines of a run over a stream.

    Attributes:
        stream: name of the conversation within the file.
        place: number of turns of the stream before the questions.
    """

    job: str = JOB
    stream: str = ""
    place: int = 0


class StoreMeasure(FrozenModel):
    """Measures of a system's store at a place of the stream, as far as the system exposes it.

    Attributes:
        items: number of texts.
        bytes: size.
        state_recall: share of the facts that hold which the memory contains.
        state_precision: share of the memory's facts that hold.
        is_final: at the end of a stream, whether the memory contains exactly the facts that hold.
        injected_calls: mean number of changes that a model made per injected document.
    """

    items: int | None = None
    bytes: int | None = None
    state_recall: float | None = None
    state_precision: float | None = None
    is_final: bool | None = None
    injected_calls: float | None = None

    @property
    def values(self) -> dict[str, float]:
        """The measures by the names of their outputs."""
        measures = {
            "store_items": self.items,
            "store_bytes": self.bytes,
            "state_recall": self.state_recall,
            "state_precision": self.state_precision,
            "final_state": self.is_final,
            "injected_calls": self.injected_calls,
        }
        return {name: float(value) for name, value in measures.items() if value is not None}


class TurnsLine(StreamLine):
    """The turns between two question places, as a system observed them.

    The line has no answer, so that `probe` is empty; `usage` and `seconds` are those of the
    observation.

    Attributes:
        turns: ids of the turns, in order.
        cpu_seconds: processor time of the observing thread.
        store: measures of the memory after the turns.
    """

    kind: str = TURNS
    probe: str = ""
    turns: tuple[str, ...]
    cpu_seconds: float = 0.0
    store: StoreMeasure = StoreMeasure()


class AnswerLine(StreamLine):
    """The answer to a question of a stream, with its gold.

    `kind` is the question's kind, and `probe` its id.

    Attributes:
        user: the asking user.
        date: date of the question.
        prompt: the question as it was asked.
        gold: right answers; `unknown` if it is right to abstain.
        rubric: statements that a right answer contains, for a judge.
        criterion: name of the criterion by which a judge compares the answer with gold.
        abstains: whether the right answer is that the fact is unknown.
        wrong: known wrong answers, with the reason why a system may give them.
        evidence: ids of the turns that decide the answer.
        hops: number of facts behind the answer.
        age: number of turns since the last evidence turn.
        answer: text of the answer.
        passage: the answering sentences of the reply, if they differ from `answer`.
        reply: the whole reply, if the answer was parsed from a chain of thought.
        retrieved: ids of the recalled turns.
        form: `plain` if the model continued plain text, `chat` if it got chat messages.
        is_cut_off: whether the reply ended at the limit of new tokens.
        no_answer: whether the model gave no readable answer.
        cut_tokens: number of prompt tokens that did not fit into the model's window.
    """

    user: str = ""
    date: str = ""
    prompt: str
    gold: tuple[str, ...]
    rubric: tuple[str, ...] = ()
    criterion: str = ""
    abstains: bool = False
    wrong: tuple[WrongAnswer, ...] = ()
    evidence: tuple[str, ...] = ()
    hops: int = 1
    age: int = 0
    answer: str | None = None
    passage: str | None = None
    reply: str | None = None
    retrieved: tuple[str, ...] = ()
    form: str = ""
    is_cut_off: bool = False
    no_answer: bool = False
    cut_tokens: int = 0


def _line_kind(line: Any) -> Literal["turns", "answer"]:
    kind = line.get("kind") if isinstance(line, Mapping) else getattr(line, "kind", "")
    return "turns" if kind == TURNS else "answer"


_ANY_LINE: Any = Annotated[
    Annotated[TurnsLine, Tag("turns")] | Annotated[AnswerLine, Tag("answer")],
    Discriminator(_line_kind),
]


def read_stream_lines(folder: Path) -> Iterator[TurnsLine | AnswerLine]:
    """Yield the lines of all complete units in a stream's run folder, in the order of writing.

    Folders of earlier versions, which have only answers, are read too.

    Raises:
        BadData: the folder is not of a stream, or a line is damaged; the message names file, line
            and field.
    """
    manifest = Manifest.read(folder)
    if manifest.job == JOB:
        yield from read_job_lines(folder, _ANY_LINE)
    elif manifest.config.benchmark == JOB and not manifest.job:
        yield from map(_of_record, read_records(folder))
    else:
        raise BadData(
            f"'{folder}' is a run of '{manifest.job or manifest.config.benchmark}', not over a "
            "stream: make one with emend stream run."
        )


def read_answers(folder: Path) -> Iterator[AnswerLine]:
    """Yield the answers in a stream's run folder; see `read_stream_lines`."""
    return (line for line in read_stream_lines(folder) if isinstance(line, AnswerLine))


# Tags of the records in folders of earlier versions: the reasons of the wrong answers, without
# their texts; the number of turns before the question; and fields of an answer line.
_WRONG, _PLACE = "wrong", "place"
_FIELDS = ("abstains", "hops", "age")


def _of_record(record: Record) -> AnswerLine:
    """Convert a record of an earlier version, whose tags hold the gold, to an answer line."""
    names = (JobLine.model_fields.keys() | AnswerLine.model_fields.keys()) - {"job", "tags"}
    shared = {name: getattr(record, name) for name in names & Record.model_fields.keys()}
    gold = {name: record.tags[name] for name in _FIELDS if name in record.tags}
    return AnswerLine.model_validate(
        {**shared, **gold, "place": record.tags.get(_PLACE, 0), "wrong": _wrong_of(record)}
    )


def _wrong_of(record: Record) -> tuple[WrongAnswer, ...]:
    """Return the wrong answers of a record by their reasons; their texts are not recorded."""
    reasons: list[Any] = [
        reason for reason in str(record.tags.get(_WRONG, "")).split(",") if reason
    ]
    return tuple(WrongAnswer(value="", why=reason) for reason in reasons)
