"""Viewer page of a stream's turns, and of the texts recalled for its questions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.log.run_table import RunTable
from emend.evals.log.table_sources import CASE_SOURCE
from emend.evals.show.view.pages.common import PageRequest, run_path
from emend.evals.show.view.pages.registry import RunPage
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import ViewData
from emend.evals.streams.run.line import JOB
from emend.evals.streams.run.tables import TABLES

# Number of places per page.
MAX_PLACES = 20
# Number of places in a static export, which has only one page.
MAX_EXPORTED = 200

_PLACES = """
SELECT case_id, any_value(stream), any_value(place), any_value(turns) FROM turns_lines
GROUP BY case_id ORDER BY min(line) LIMIT ? OFFSET ?"""
_COUNT = "SELECT count(DISTINCT case_id) FROM turns_lines"
_STORES = """
SELECT case_id, editor, store_items FROM turns_lines
WHERE repeat = 0 AND store_items IS NOT NULL AND list_contains(?, case_id) ORDER BY line"""
_ANSWERS = """
SELECT case_id, probe, kind, prompt, gold, evidence, editor, repeat, coalesce(answer, ''),
    "values"['correct'], retrieved FROM answers_lines
WHERE list_contains(?, case_id) ORDER BY line"""
_TEXTS = """
SELECT DISTINCT edit.id, edit.text FROM (SELECT unnest(edits) AS edit FROM case_lines)
WHERE list_contains(?, edit.id)"""


class ShownPlace(NamedTuple):
    """A place of the stream, with the ids of its turns."""

    case: str
    stream: str
    number: int
    turns: Sequence[str]


class PlaceAnswer(NamedTuple):
    """An answer at a place, with its question."""

    case: str
    probe: str
    kind: str
    prompt: str
    gold: Sequence[str]
    evidence: Sequence[str]
    system: str
    repeat: int
    text: str
    correct: float | None
    retrieved: Sequence[str]

    @property
    def verdict(self) -> str:
        """The correctness of the answer: right, wrong or unscored."""
        if self.correct is None:
            return "unscored"
        return "right" if self.correct == 1 else "wrong"


def turns_page(request: PageRequest, location: RunLocation) -> ViewData:
    """Return one page of places in order, with their turns and the answers after them."""
    start = 0 if request.static else request.offset("from")
    length = MAX_EXPORTED if request.static else MAX_PLACES
    with _open_table(location.folder) as table:
        ((count,),) = table.rows(_COUNT)
        places = [ShownPlace(*row) for row in table.rows(_PLACES, length, start)]
        cases = [place.case for place in places]
        stores = table.rows(_STORES, cases)
        answers = [PlaceAnswer(*row) for row in table.rows(_ANSWERS, cases)]
        texts = dict(table.rows(_TEXTS, list(_turn_ids(places, answers))))
    end = start + len(places)
    previous = following = ""
    if start:
        previous = _page_from(request, location, max(0, start - MAX_PLACES))
    if end < count and not request.static:
        following = _page_from(request, location, end)
    return ViewData(
        count=count,
        start=start,
        end=end,
        places=[_place_view(place, stores, answers, texts) for place in places],
        next=following,
        previous=previous,
    )


def _page_from(request: PageRequest, location: RunLocation, start: int) -> str:
    path = run_path(location, "turns.html")
    return request.link(path, **{"from": str(start or "")})


def _open_table(folder: Path) -> RunTable:
    sources = [table.source(name) for name, table in TABLES.items()]
    return RunTable(folder, [*sources, CASE_SOURCE])


def _turn_ids(places: Sequence[ShownPlace], answers: Sequence[PlaceAnswer]) -> Iterator[str]:
    for place in places:
        yield from place.turns
    for answer in answers:
        yield from answer.retrieved
        yield from answer.evidence


def _place_view(
    place: ShownPlace,
    stores: Sequence[tuple[Any, ...]],
    answers: Sequence[PlaceAnswer],
    texts: dict[str, str],
) -> ViewData:
    by_question: dict[str, list[PlaceAnswer]] = {}
    for answer in answers:
        if answer.case == place.case:
            by_question.setdefault(answer.probe, []).append(answer)
    return ViewData(
        stream=place.stream,
        number=place.number,
        turns=[texts.get(turn, turn) for turn in place.turns],
        stores=[(system, items) for case, system, items in stores if case == place.case],
        questions=[_question_view(same, texts) for same in by_question.values()],
    )


def _question_view(answers: Sequence[PlaceAnswer], texts: dict[str, str]) -> ViewData:
    first = answers[0]
    return ViewData(
        kind=first.kind,
        prompt=first.prompt,
        gold=first.gold,
        evidence=[texts.get(turn, turn) for turn in first.evidence],
        answers=[_answer_view(answer, texts) for answer in answers],
    )


def _answer_view(answer: PlaceAnswer, texts: dict[str, str]) -> ViewData:
    """Return an answer with the recalled texts, each marked by whether it is evidence."""
    recalled = [(texts.get(turn, turn), turn in answer.evidence) for turn in answer.retrieved]
    missed = [turn for turn in answer.evidence if turn not in answer.retrieved]
    return ViewData(
        system=answer.system,
        repeat=answer.repeat,
        text=answer.text,
        verdict=answer.verdict,
        recalled=recalled,
        missed=len(missed),
    )


TURNS_PAGE = RunPage(
    "Turns", turns_page, template=Path(__file__).with_name("turns.html"), jobs=(JOB,)
)
