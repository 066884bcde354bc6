"""Page that lists the cases of a run matching a filter."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from emend.evals.case import Record
from emend.evals.show.trace.verdicts import VERDICTS, deciding_scores, verdict_and_score
from emend.evals.show.view.answers import SORTS, CaseKey, Condition, RunAnswers
from emend.evals.show.view.pages.common import PageRequest, case_path, run_path
from emend.evals.show.view.pages.registry import RunPage
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import AnswerView, CaseFilter, Page, ViewData
from emend.memory.errors import BadSettings

# Number of cases on a page.
SIZE = 50
MAX_TAGS = 60
FILTERS = ("editor", "kind", "tag", "verdict", "text", "where", "sort", "after")


def cases_page(request: PageRequest, location: RunLocation) -> Page:
    """Build the page of the cases that match the query."""
    chosen = CaseFilter(
        **{name: request.value(name)[:500] for name in FILTERS},
        errors=bool(request.value("errors")),
    )
    answers, status = request.library.answers(location)
    data = ViewData(
        filter=chosen,
        problem=status.text,
        counts={},
        rows=[],
        cases=None,
        answers=None,
        first="",
        next="",
    )
    if answers is not None:
        data.counts, data.sorts = _counts(answers), SORTS
        try:
            vars(data).update(_select(request, location, answers, chosen))
        except BadSettings as error:
            data.problem = str(error)
    words = ["trace", str(location.folder), *_options(chosen)]
    return Page(
        request.head(
            "cases", f"Cases of {location.name}", location, words=words, waiting=answers is None
        ),
        data,
    )


def _options(chosen: CaseFilter) -> list[str]:
    """Return the options of `emend trace` that list the same answers."""
    words = [
        word
        for name in ("editor", "kind")
        for word in (f"--{name}", getattr(chosen, name))
        if getattr(chosen, name)
    ]
    if chosen.verdict in ("right", "wrong"):
        words.append(f"--{chosen.verdict}")
    if chosen.where:
        words += ["--where", chosen.where]
    if chosen.text and not (chosen.where or chosen.verdict):
        words += ["--grep", chosen.text]
    if chosen.errors and not (chosen.where or chosen.verdict):
        words.append("--errors")
    return words


def _select(
    request: PageRequest, location: RunLocation, answers: RunAnswers, chosen: CaseFilter
) -> dict[str, Any]:
    """Return the cases of the page, and the numbers of all matching cases and answers."""
    fits, failed, further = answers.condition(chosen), answers.failed_cases, list[int]()
    if chosen.errors and not (chosen.kind or chosen.verdict or chosen.where or chosen.tag):
        further = [at for at, editors in failed.items() if chosen.editor in ("", *editors)]
    order = answers.sorted_cases(fits, chosen.sort, further)
    end = request.offset("after") + SIZE
    visible = order[end - SIZE : end]
    if request.static:  # only cases that have a page in the export
        visible = order[np.isin(order, answers.chosen_cases(request.value("cases") or "all"))]
    query = {
        name: value
        for name, value in chosen.model_dump(exclude={"after", "errors"}).items()
        if value
    }
    if chosen.errors:
        query |= {"errors": "1"}
    path = run_path(location, "cases.html")
    has_more = end < len(order) and not request.static
    first, following = "", ""
    if chosen.after:
        first = request.link(path, **query)
    if has_more:
        following = request.link(path, **query, after=str(end))
    return {
        "rows": list(_rows(location, answers, visible.tolist(), fits)),
        "cases": len(order),
        "answers": answers.matches(fits),
        "first": first,
        "next": following,
    }


def _counts(answers: RunAnswers) -> dict[str, dict[str, int]]:
    """Return the number of answers for each value of each filter."""
    return answers.counts | {
        "editor": dict.fromkeys(answers.editors, 0) | answers.counts["editor"],
        "tag": dict([*answers.counts["tag"].items()][:MAX_TAGS]),
    }


def _rows(
    location: RunLocation, answers: RunAnswers, positions: Sequence[int], fits: Condition
) -> Iterator[ViewData]:
    """Yield cases with their first edit, verdict counts of matching answers, and an example."""
    tallies, lines = answers.tallies(fits, positions), answers.example_lines(fits, positions)
    examples = dict(zip(lines, read_answers(location, answers, [*lines.values()]), strict=True))
    for position in positions:
        key, line = answers.key_of(position), answers.read_case(position)
        counts, failed = tallies.get(position, {}), answers.failed_cases.get(position, Counter())
        title = ""
        if line["edits"]:
            title = str(line["edits"][0]["text"])
        editor_tallies = list[ViewData]()
        for name in answers.editors:
            if name in counts or name in failed:
                verdicts = dict.fromkeys(VERDICTS, 0) | counts.get(name, {})
                editor_tallies.append(ViewData(editor=name, failed=failed[name], **verdicts))
        yield ViewData(
            number=key.number,
            setting=line["setting"],
            href=case_path(location, *key),
            title=title,
            edits=len(line["edits"]),
            tallies=editor_tallies,
            example=examples.get(position),
        )


def read_answers(
    location: RunLocation, answers: RunAnswers, lines: Sequence[int]
) -> Iterator[AnswerView]:
    """Yield the views of the answers on these lines of the records file."""
    for position, record in answers.read_answers(lines):
        yield answer_view(location, record, answers.key_of(position))


def answer_view(location: RunLocation, record: Record, key: CaseKey) -> AnswerView:
    """Return the view of an answer of a case, with its verdict."""
    verdict, score = verdict_and_score(
        deciding_scores(location.manifest.metrics, record.kind), record.values, record.unscored
    )
    editors = location.manifest.config.editors
    if record.editor in editors:
        editor = editors.index(record.editor)
    else:
        editor = len(editors)
    plain = "".join(letter for letter in record.probe if letter.isalnum() or letter == "-")[:40]
    return AnswerView(
        record=record,
        verdict=verdict,
        score=score,
        number=key.number,
        case=case_path(location, *key),
        anchor=f"p-{plain}-{editor}-{record.repeat}-{record.checkpoint}",
    )


CASES_PAGE = RunPage("Cases", cases_page)
