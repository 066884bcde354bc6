"""The cases of a run that fit a filter, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emend.evals.log.lines import CASES, RECORDS
from emend.evals.trace.answers import VERDICTS, deciding_scores, verdict_of
from emend.evals.view.answers import SORTS, CaseKey, Mask, RunAnswers
from emend.evals.view.offsets import read_case, read_record
from emend.evals.view.pages.common import PageRequest, case_path, run_path
from emend.evals.view.records.cases import AnswerExample, CaseFilter, CaseRowView, CasesView, Tally
from emend.evals.view.records.page import Choice, Page
from emend.evals.view.records.run import RunEntry
from emend.evals.view.scan import RunPlace
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
    cases: int
    answers: int
    searched: float = 1.0
    next: str = ""


def cases_page(request: PageRequest, place: RunPlace) -> Page:
    """The cases that fit the query."""
    chosen = CaseFilter(**{name: request.value(name)[:500] for name in FILTERS}, errors=bool(request.value("errors")))
    answers, status = request.library.answers(place)
    run = request.library.entry(place, wait=answers is not None)
    waiting, data = answers is None, CasesView(run=run, filter=chosen, searched=0.0, problem=status.text)
    if answers is not None:
        try:
            selection = _select(request, place, answers, chosen)
            waiting = selection.searched < 1
            data = _view(request, place, answers, run, chosen, selection)
        except BadSettings as error:
            data = _with_choices(data, answers, chosen).model_copy(update={"problem": str(error), "searched": 1.0})
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
    if chosen.errors:
        having |= _failed(request, place, answers, chosen)
    sort = chosen.sort if chosen.sort in SORTS else "number"
    values = answers.case_values(fits, sort)
    positions = np.flatnonzero(having)
    order = positions[np.lexsort((positions, -values[positions]))]
    start = _start(order, values, answers, chosen.after)
    size = len(order) if request.static else SIZE
    visible = [int(position) for position in order[start : start + size]]
    next_key = _key(answers, values, visible[-1]) if visible and start + size < len(order) else ""
    return CaseSelection(visible, fits, len(order), int(fits.sum()), searched, next_key)


def _failed(request: PageRequest, place: RunPlace, answers: RunAnswers, chosen: CaseFilter) -> Mask:
    """Cases with a unit that failed, under the filter's editor."""
    failed = np.zeros(answers.cases, bool)
    if chosen.kind or chosen.verdict or chosen.where or chosen.tag:
        return failed
    hashes = {int(each): position for position, each in enumerate(answers.case_rows["case"])}
    for failure in request.library.failures(place, answers):
        position = hashes.get(answers.hash_of(failure.setting, failure.case))
        if position is not None and chosen.editor in ("", failure.editor):
            failed[position] = True
    return failed


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
    request: PageRequest,
    place: RunPlace,
    answers: RunAnswers,
    run: RunEntry,
    chosen: CaseFilter,
    selection: CaseSelection,
) -> CasesView:
    query = {name: value for name, value in chosen.model_dump(exclude={"after", "errors"}).items() if value}
    query |= {"errors": "1"} if chosen.errors else {}
    path = run_path(place, "cases.html")
    complete = selection.searched >= 1
    view = CasesView(
        run=run,
        filter=chosen,
        rows=tuple(_rows(request, place, answers, selection)),
        cases=selection.cases if complete else None,
        answers=selection.answers if complete else None,
        searched=selection.searched,
        first=request.link(path, **query) if chosen.after else "",
        next=request.link(path, **query, after=selection.next) if selection.next and not request.static else "",
    )
    return _with_choices(view, answers, chosen)


def _with_choices(view: CasesView, answers: RunAnswers, chosen: CaseFilter) -> CasesView:
    """The page with the values of each filter, and how many answers have them."""

    def choices(counts: dict[str, int], current: str) -> tuple[Choice, ...]:
        return tuple(
            Choice(value=name, text=name.replace("_", " "), count=count, chosen=name == current)
            for name, count in counts.items()
        )

    editors = dict.fromkeys(answers.editors, 0) | answers.count("editor")
    sorts = tuple(
        Choice(value=name, text=text, chosen=name == (chosen.sort or "number")) for name, text in SORTS.items()
    )
    return view.model_copy(
        update={
            "editors": tuple(each.model_copy(update={"text": each.value}) for each in choices(editors, chosen.editor)),
            "kinds": choices(answers.count("kind"), chosen.kind),
            "tags": choices(answers.tag_counts(MAX_TAGS), chosen.tag),
            "verdicts": choices(answers.verdict_counts(), chosen.verdict),
            "sorts": sorts,
        }
    )


def _rows(
    request: PageRequest, place: RunPlace, answers: RunAnswers, selection: CaseSelection
) -> Sequence[CaseRowView]:
    tallies = answers.tallies(selection.fits, selection.positions)
    failed = _failed_by_case(request, place, answers)
    first = _first_rows(answers, selection)
    rows = []
    for position in selection.positions:
        key = answers.key_of(position)
        line = read_case(place.folder / CASES, int(answers.case_rows["start"][position]))
        counts = {editor: (*tally, 0) for editor, tally in tallies.get(position, {}).items()}
        for editor, count in failed.get(position, {}).items():
            counts[editor] = (*counts.get(editor, (0, 0, 0, 0))[:3], count)
        rows.append(
            CaseRowView(
                number=key.number,
                setting=line["setting"],
                href=case_path(place, *key),
                title=str(line["edits"][0]["text"]) if line["edits"] else "",
                edits=len(line["edits"]),
                tallies=tuple(
                    Tally(
                        editor=name,
                        right=counts[name][0],
                        wrong=counts[name][1],
                        unscored=counts[name][2],
                        failed=counts[name][3],
                    )
                    for name in answers.editors
                    if name in counts
                ),
                example=example(place, answers, first[position]) if position in first else None,
            )
        )
    return rows


def _failed_by_case(request: PageRequest, place: RunPlace, answers: RunAnswers) -> dict[int, dict[str, int]]:
    """Number of failed units by position of the case and editor."""
    failures = request.library.failures(place, answers)
    positions = {int(each): at for at, each in enumerate(answers.case_rows["case"])} if failures else {}
    counts = dict[int, dict[str, int]]()
    for failure in failures:
        position = positions.get(answers.hash_of(failure.setting, failure.case))
        if position is not None:
            of_case = counts.setdefault(position, {})
            of_case[failure.editor] = of_case.get(failure.editor, 0) + 1
    return counts


def _first_rows(answers: RunAnswers, selection: CaseSelection) -> dict[int, int]:
    """The first fitting answer of each case of the page."""
    rows = answers.rows_of(selection.fits, selection.positions).tolist()
    return {int(answers.columns["case"][row]): row for row in reversed(rows)}


def example(place: RunPlace, answers: RunAnswers, row: int) -> AnswerExample:
    """An answer in short, with a link to it on the page of its case."""
    record = read_record(place.folder / RECORDS, int(answers.columns["start"][row]))
    key = answers.key_of(int(answers.columns["case"][row]))
    names = deciding_scores(place.manifest.metrics, record.kind)
    verdict, score = verdict_of(names, record.values, record.unscored)
    assert verdict in VERDICTS
    return AnswerExample(
        editor=record.editor,
        kind=record.kind,
        question=record.prompt,
        gold=record.gold,
        answer=record.answer,
        verdict=verdict,
        score=score,
        href=f"{case_path(place, *key)}#{anchor(record.editor, record.probe, record.repeat, record.checkpoint, place)}",
    )


def anchor(editor: str, probe: str, repeat: int, checkpoint: int, place: RunPlace) -> str:
    """Anchor of an answer on the page of its case."""
    editors = place.manifest.config.editors
    number = editors.index(editor) if editor in editors else len(editors)
    plain = "".join(letter for letter in probe if letter.isalnum() or letter == "-")[:40]
    return f"p-{plain}-{number}-{repeat}-{checkpoint}"
