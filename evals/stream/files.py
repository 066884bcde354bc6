"""Files of streams: JSON lines, each with a turn or a question, in the order in which an agent meets them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from emend.evals.data.benchmarks.rows import read_text
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.errors import BadData, MissingData
from emend.memory.files import replace_file
from emend.memory.json_files import parse_json

TURN, QUESTION = "turn", "question"
REMEDY = "See docs/how-to/streams.md for the format, or make one with emend stream new."
StreamItem = Turn | StreamQuestion


class StreamSegment(NamedTuple):
    """Turns, and the questions that are asked after them and before the next turn."""

    turns: tuple[Turn, ...]
    questions: tuple[StreamQuestion, ...]


def write_stream(items: Iterable[StreamItem], path: Path) -> None:
    """Write turns and questions in their order."""
    lines = (
        f'{{"{TURN if isinstance(item, Turn) else QUESTION}": {item.model_dump_json(exclude_defaults=True)}}}\n'
        for item in items
    )
    replace_file(path, "".join(lines).encode())


def read_stream(path: Path) -> list[StreamItem]:
    """The turns and questions of a file; each question gets the number of turns before it.

    Raises:
        MissingData: there is no such file.
        BadData: a line is neither a turn nor a question, or one comes twice; names the line.
    """
    if not path.is_file():
        raise MissingData(f"there is no stream '{path}'. {REMEDY}")
    items: list[StreamItem] = []
    ids: dict[str, int] = {}
    turns = 0
    for number, line in enumerate(read_text(path, REMEDY).split("\n"), 1):
        if not line.strip():
            continue
        item = _item(line, f"{path}, line {number}", turns)
        if item.id in ids:
            raise BadData(f"{path}, line {number}: the same id as in line {ids[item.id]}: give each its own. {REMEDY}")
        ids[item.id] = number
        turns += isinstance(item, Turn)
        items.append(item)
    if not turns or turns == len(items):
        raise BadData(f"{path} has no {'question' if turns else 'turn'}: a stream needs both. {REMEDY}")
    return items


def _item(line: str, place: str, turns: int) -> StreamItem:
    fields = parse_json(line, place)
    if not (isinstance(fields, dict) and len(fields) == 1 and next(iter(fields)) in (TURN, QUESTION)):
        raise BadData(f'{place}: not {{"{TURN}": ...}} or {{"{QUESTION}": ...}}. {REMEDY}')
    ((kind, content),) = fields.items()
    try:
        if kind == TURN:
            return Turn.model_validate(content)
        return StreamQuestion.model_validate(content | {"place": turns} if isinstance(content, dict) else content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or kind
        raise BadData(f"{place}, {field}: {first['msg']}. {REMEDY}") from error


def segments(items: Sequence[StreamItem]) -> Iterator[StreamSegment]:
    """The stream divided after its questions; turns after the last question are left out."""
    turns: list[Turn] = []
    for is_turn, group in groupby(items, key=lambda item: isinstance(item, Turn)):
        if is_turn:
            turns = [item for item in group if isinstance(item, Turn)]
        else:
            yield StreamSegment(tuple(turns), tuple(item for item in group if isinstance(item, StreamQuestion)))
            turns = []
