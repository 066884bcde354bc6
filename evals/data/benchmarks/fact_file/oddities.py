"""Oddities of a file of facts as a whole: rows that can be read, and that probably do not measure what was meant."""

import re
from collections.abc import Iterator, Sequence

from emend.evals.data.benchmarks.fact_file.rows import FactRow
from emend.evals.metrics.text import fold

FORMS = {
    r"\d+\.0": "may be a whole number that pandas has written with a decimal",
    r"\d{1,3}(\.\d{3})*,\d+": "has a decimal comma: give the form with a point as an alias",
    "[\"“”„'‘’«].+[\"“”'‘’»]": "stands in quotes, which no answer has: leave them out",
    r".{120,}": "is long for an answer that is compared word by word: give a shorter alias",
}
"""Forms of a gold answer that replies seldom have; patterns of whole texts."""


def oddities_of(rows: Sequence[tuple[str, FactRow]]) -> list[str]:
    """Return warnings about rows with their places: golds that replies will hardly match, leaks, repeated rows."""
    return [f"{place}: {text}" for place, row in rows for text in _in_row(row)] + list(_between_rows(rows))


def _in_row(row: FactRow) -> Iterator[str]:
    gold = row.answer or row.object or ""
    for pattern, meaning in FORMS.items() if not row.is_long else ():
        if re.fullmatch(pattern, gold, re.DOTALL) and not row.aliases:
            yield f"the answer '{gold:.60}' {meaning}"
    for question in (row.question or row.prompt or "", *row.paraphrases):
        if _holds(question, gold):
            yield f"the question '{question:.60}' holds its own answer '{gold:.40}'"
    if row.old_answer is not None and fold(row.old_answer) == fold(gold):
        yield f"the old answer is the new one, '{gold:.40}': the fact changes nothing"
    if any(fold(aside.question) == fold(row.question or "") for aside in row.locality):
        yield f"the question '{row.question:.60}' is among those that must not change"


def _holds(question: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(fold(answer))}(?!\w)", fold(question)) is not None


def _between_rows(rows: Sequence[tuple[str, FactRow]]) -> Iterator[str]:
    answers: dict[str, tuple[str, str]] = {}
    first: dict[str, str] = {}
    for place, row in rows:
        if (earlier := first.setdefault(row.model_dump_json(), place)) != place:
            yield f"{place}: the same row as in {earlier}"
            continue
        question, gold = row.question or row.edit.cloze, row.answer or row.object or ""
        where, before = answers.setdefault(fold(question), (place, gold))
        if fold(before) != fold(gold):
            yield f"{place}: the answer to '{question:.60}' is '{gold:.40}' here, and '{before:.40}' in {where}"
