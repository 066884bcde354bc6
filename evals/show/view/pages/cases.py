"""The cases of a run that fit a filter, page by page."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from emend.evals.case import Record
from emend.evals.show.trace.answers import VERDICTS, deciding_scores, verdict_and_score
from emend.evals.show.view.answers import SORTS, CaseKey, Condition, RunAnswers
from emend.evals.show.view.pages.common import PageRequest, case_path, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import AnswerView, CaseFilter, Page, ViewData
from emend.memory.errors import BadSettings

SIZE = 50
"""Number of cases on a page."""
MAX_TAGS = 60
FILTERS = ("editor", "kind", "tag", "verdict", "text", "where", "sort", "after")


def cases_page(request: PageRequest, place: RunPlace) -> Page:
    """The cases that fit the query."""
    chosen = CaseFilter(**{name: request.value(name)[:500] for name in FILTERS}, errors=bool(request.value("errors")))
    answers, status = request.library.answers(place)
    data = ViewData(filter=chosen, problem=status.text, counts={}, rows=[], cases=None, answers=None, first="", next="")
    if answers is not None:
        data.counts, data.sorts = _counts(answers), SORTS
        try:
            vars(data).update(_select(request, place, answers, chosen))
        except BadSettings as error:
            data.problem = str(error)
    words = ["trace", str(place.folder), *_options(chosen)]
    return Page(request.head("cases", f"Cases of {place.name}", place, words=words, waiting=answers is None), data)


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


def _select(request: PageRequest, place: RunPlace, answers: RunAnswers, chosen: CaseFilter) -> dict[str, Any]:
    """The cases of the page, and what fits in all."""
    fits, failed, further = answers.condition(chosen), answers.failed_cases, list[int]()
    if chosen.errors and not (chosen.kind or chosen.verdict or chosen.where or chosen.tag):
        further = [at for at, editors in failed.items() if chosen.editor in ("", *editors)]
    order = answers.sorted_cases(fits, chosen.sort, further)
    end = request.offset("after") + SIZE
    visible = order[end - SIZE : end]
    if request.static:  # those that have a page
        visible = order[np.isin(order, answers.chosen_cases(request.value("cases") or "all"))]
    query = {name: value for name, value in chosen.model_dump(exclude={"after", "errors"}).items() if value}
    query |= {"errors": "1"} if chosen.errors else {}
    path = run_path(place, "cases.html")
    has_more = end < len(order) and not request.static
    return {
        "rows": list(_rows(place, answers, visible.tolist(), fits)),
        "cases": len(order),
        "answers": answers.matches(fits),
        "first": request.link(path, **query) if chosen.after else "",
        "next": request.link(path, **query, after=str(end)) if has_more else "",
    }


def _counts(answers: RunAnswers) -> dict[str, dict[str, int]]:
    """The values of each filter, and how many answers have them."""
    return answers.counts | {
        "editor": dict.fromkeys(answers.editors, 0) | answers.counts["editor"],
        "tag": dict([*answers.counts["tag"].items()][:MAX_TAGS]),
    }


def _rows(place: RunPlace, answers: RunAnswers, positions: Sequence[int], fits: Condition) -> Iterator[ViewData]:
    """The cases with the first edit of each, the tallies of its fitting answers by editor, and the first of these."""
    tallies, first_lines = answers.tallies(fits, positions), answers.first_lines(fits, positions)
    examples = dict(zip(first_lines, read_answers(place, answers, [*first_lines.values()]), strict=True))
    for position in positions:
        key, line = answers.key_of(position), answers.read_case(position)
        counts, failed = tallies.get(position, {}), answers.failed_cases.get(position, Counter())
        yield ViewData(
            number=key.number,
            setting=line["setting"],
            href=case_path(place, *key),
            title=str(line["edits"][0]["text"]) if line["edits"] else "",
            edits=len(line["edits"]),
            tallies=[
                ViewData(editor=name, failed=failed[name], **dict.fromkeys(VERDICTS, 0) | counts.get(name, {}))
                for name in answers.editors
                if name in counts or name in failed
            ],
            example=examples.get(position),
        )


def read_answers(place: RunPlace, answers: RunAnswers, lines: Sequence[int]) -> Iterator[AnswerView]:
    """The answers on these lines of the run's records."""
    for position, record in answers.read_answers(lines):
        yield answer_view(place, record, answers.key_of(position))


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
