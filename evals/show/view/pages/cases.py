"""The cases of a run that fit a filter, page by page."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from emend.evals.case import Record
from emend.evals.log.lines import CASES, RECORDS
from emend.evals.show.trace.answers import VERDICTS, deciding_scores, verdict_and_score
from emend.evals.show.view.answers import SORTS, CaseKey, Mask, RunAnswers
from emend.evals.show.view.offsets import read_case, read_record
from emend.evals.show.view.pages.common import PageRequest, case_path, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views.cases import AnswerView, CaseFilter, CaseRowView, CasesView, Tally
from emend.evals.show.view.views.page import Choice, Page
from emend.memory.errors import BadSettings

SIZE = 50
"""Number of cases on a page."""
MAX_TAGS = 60
SEARCH_SECONDS = 0.12
"""Time that a page may spend on a text."""
FILTERS = ("editor", "kind", "tag", "verdict", "text", "where", "sort", "after")


@dataclass
class CaseSelection:
    """The cases that fit: their positions in order, those of this page, and what fits of their answers."""

    positions: list[int]
    fits: Mask
    failed: dict[int, Counter[str]]
    cases: int
    searched: float = 1.0
    next: str = ""


def cases_page(request: PageRequest, place: RunPlace) -> Page:
    """The cases that fit the query."""
    chosen = CaseFilter(**{name: request.value(name)[:500] for name in FILTERS}, errors=bool(request.value("errors")))
    answers, status = request.library.answers(place)
    waiting, data = answers is None, CasesView(filter=chosen, searched=0.0, problem=status.text)
    if answers is not None:
        data = data.model_copy(update={"choices": _choices(answers, chosen), "searched": 1.0})
        try:
            selection = _select(request, place, answers, chosen)
            waiting = selection.searched < 1
            data = data.model_copy(update=_view(request, place, answers, chosen, selection))
        except BadSettings as error:
            data = data.model_copy(update={"problem": str(error)})
    words = ["trace", str(place.folder), *_options(chosen)]
    return Page(request.head("cases", f"Cases of {place.name}", place, words=words, waiting=waiting), data)


def _options(chosen: CaseFilter) -> list[str]:
    """Options of `emend trace` that list the same answers."""
    words = [
        word for name in ("editor", "kind") for word in (f"--{name}", getattr(chosen, name)) if getattr(chosen, name)
    ]
    if chosen.verdict in ("right", "wrong"):
        words.append(f"--{chosen.verdict}")
    if chosen.where:
        words += ["--where", chosen.where]
    if chosen.text and not (chosen.where or chosen.verdict):
        words += ["--grep", chosen.text]
    return words + (["--errors"] if chosen.errors and not (chosen.where or chosen.verdict) else [])


def _select(request: PageRequest, place: RunPlace, answers: RunAnswers, chosen: CaseFilter) -> CaseSelection:
    """The cases of the page, and what fits in all."""
    text, searched = None, 1.0
    if chosen.text:
        search = request.library.search(place, answers, chosen.text, SEARCH_SECONDS)
        text, searched = search.matches, search.searched
    fits = answers.mask(chosen, text)
    having = np.zeros(answers.cases, bool)
    having[answers.columns["case"][fits]] = True
    failed = _failed(request, place, answers)
    if chosen.errors and not (chosen.kind or chosen.verdict or chosen.where or chosen.tag):
        having[[at for at, editors in failed.items() if chosen.editor in ("", *editors)]] = True
    sort = chosen.sort if chosen.sort in SORTS else "number"
    values = answers.case_values(fits, sort)
    positions = np.flatnonzero(having)
    order = positions[np.lexsort((positions, -values[positions]))]
    start = _start(order, values, answers, chosen.after)
    if request.static:  # those that have a page
        visible = order[np.isin(order, answers.chosen_cases(request.value("cases") or "all"))].tolist()
    else:
        visible = order[start : start + SIZE].tolist()
    next_key = _key(answers, values, visible[-1]) if visible and start + SIZE < len(order) else ""
    return CaseSelection(visible, fits, failed, len(order), searched, next_key)


def _failed(request: PageRequest, place: RunPlace, answers: RunAnswers) -> dict[int, Counter[str]]:
    """Number of failed units of each editor, by position of the case."""
    failures = request.library.failures(place, answers)
    positions = {int(each): at for at, each in enumerate(answers.case_rows["case"])} if failures else {}
    counts = dict[int, Counter[str]]()
    for failure in failures:
        position = positions.get(answers.hash_of(failure.setting, failure.case))
        if position is not None:
            counts.setdefault(position, Counter())[failure.editor] += 1
    return counts


def _key(answers: RunAnswers, values: Any, position: int) -> str:
    """Key of the last case of a page, by which the next page finds its place though the run goes on meanwhile."""
    case = answers.key_of(position)
    return f"{values[position]!r}:{case.setting}-{case.number}".removeprefix("np.float64(").replace("):", ":")


def _start(order: Any, values: Any, answers: RunAnswers, after: str) -> int:
    """Number of cases before the page that begins after a key."""
    value, _, case = after.partition(":")
    try:
        last = float(value)
        position = answers.position_of(CaseKey(*map(int, case.split("-"))))
    except (ValueError, TypeError):
        return 0
    if position is None:
        return 0
    before = (values[order] > last) | ((values[order] == last) & (order <= position))
    return int(before.sum())


def _view(
    request: PageRequest, place: RunPlace, answers: RunAnswers, chosen: CaseFilter, selection: CaseSelection
) -> dict[str, Any]:
    """The fields of the page that depend on the selection."""
    query = {name: value for name, value in chosen.model_dump(exclude={"after", "errors"}).items() if value}
    query |= {"errors": "1"} if chosen.errors else {}
    path = run_path(place, "cases.html")
    complete = selection.searched >= 1
    return {
        "rows": tuple(_rows(place, answers, selection)),
        "cases": selection.cases if complete else None,
        "answers": int(selection.fits.sum()) if complete else None,
        "searched": selection.searched,
        "problem": "",
        "first": request.link(path, **query) if chosen.after else "",
        "next": request.link(path, **query, after=selection.next) if selection.next and not request.static else "",
    }


def _choices(answers: RunAnswers, chosen: CaseFilter) -> dict[str, tuple[Choice, ...]]:
    """The values of each filter, and how many answers have them."""
    counts = {
        "editor": dict.fromkeys(answers.editors, 0) | answers.count("editor"),
        "kind": answers.count("kind"),
        "tag": answers.tag_counts(MAX_TAGS),
        "verdict": answers.verdict_counts(),
    }
    choices = {
        kind: tuple(
            Choice(value=name, text=name, count=count, chosen=name == getattr(chosen, kind))
            for name, count in values.items()
        )
        for kind, values in counts.items()
    }
    sorts = (Choice(value=name, text=text, chosen=name == (chosen.sort or "number")) for name, text in SORTS.items())
    return choices | {"sort": tuple(sorts)}


def _rows(place: RunPlace, answers: RunAnswers, selection: CaseSelection) -> Iterator[CaseRowView]:
    tallies = answers.tallies(selection.fits, selection.positions)
    rows = answers.rows_of(selection.fits, selection.positions).tolist()
    first = {int(answers.columns["case"][row]): row for row in reversed(rows)}
    for position in selection.positions:
        key = answers.key_of(position)
        line = read_case(place.folder / CASES, int(answers.case_rows["start"][position]))
        counts, failed = tallies.get(position, {}), selection.failed.get(position, Counter())
        yield CaseRowView(
            number=key.number,
            setting=line["setting"],
            href=case_path(place, *key),
            title=str(line["edits"][0]["text"]) if line["edits"] else "",
            edits=len(line["edits"]),
            tallies=tuple(
                Tally(editor=name, failed=failed[name], **dict(zip(VERDICTS, counts.get(name, ()), strict=False)))
                for name in answers.editors
                if name in counts or name in failed
            ),
            example=read_answer(place, answers, first[position]) if position in first else None,
        )


def read_answer(place: RunPlace, answers: RunAnswers, row: int) -> AnswerView:
    """The answer in a row of the index."""
    record = read_record(place.folder / RECORDS, int(answers.columns["start"][row]))
    return answer_view(place, record, answers.key_of(int(answers.columns["case"][row])))


def answer_view(place: RunPlace, record: Record, key: CaseKey) -> AnswerView:
    """An answer of a case, with its verdict."""
    verdict, score = verdict_and_score(
        deciding_scores(place.manifest.metrics, record.kind), record.values, record.unscored
    )
    editors = place.manifest.config.editors
    editor = editors.index(record.editor) if record.editor in editors else len(editors)
    plain = "".join(letter for letter in record.probe if letter.isalnum() or letter == "-")[:40]
    return AnswerView(
        record=record,
        verdict=verdict,
        score=score,
        number=key.number,
        case=case_path(place, *key),
        anchor=f"p-{plain}-{editor}-{record.repeat}-{record.checkpoint}",
    )
