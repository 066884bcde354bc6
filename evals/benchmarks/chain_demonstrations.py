"""Demonstrations of AKEW and MQuAKE: an edit as it is told, its question, and a hop that the record leaves alone."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.akew.cases import edits_of
from emend.evals.benchmarks.akew.rows import AkewRow, MultiHopRow, Rewrite
from emend.evals.benchmarks.demonstrations import Names, first_of_each, gathered, last_drawn
from emend.evals.benchmarks.mquake.rows import ChainRow, chain_edits, unedited_hops

R = TypeVar("R", AkewRow, ChainRow)


def akew_examples(rows: Iterable[AkewRow], setting: str, seed: int = 0) -> Iterator[Demonstration]:
    """Those of records all of whose subjects are theirs alone; the data sets without hops have nothing to retain."""
    return _of_rows(rows, _akew_texts, lambda row: _of_record(row, setting), seed)


def mquake_examples(rows: Iterable[ChainRow], file: str, seed: int = 0) -> Iterator[Demonstration]:
    """The same of MQuAKE; its multi-hop questions are not shown, as their later hops are those of other records too."""
    return _of_rows(rows, _chain_texts, lambda row: _of_chain(row, file), seed)


def _of_rows(
    rows: Iterable[R], texts: Callable[[R], Iterable[str]], examples: Callable[[R], Iterable[Demonstration]], seed: int
) -> Iterator[Demonstration]:
    """`texts` are those of a row in which a name may stand; `examples`, what the row can give."""
    held = list(rows)
    names = Names(map(texts, held))
    fitting = (
        row
        for row in last_drawn(held, lambda row: row.id, seed)
        if all(names.alone(rewrite.subject) for rewrite in row.requested_rewrite)
    )
    return gathered(
        first_of_each(examples(row), lambda one: one.kind != "retain" or names.alone_in(one.prompt)) for row in fitting
    )


def _of_record(row: AkewRow, setting: str) -> Iterator[Demonstration]:
    for rewrite in row.requested_rewrite:
        if not (told := _told(rewrite, setting)):
            continue
        target = rewrite.target_new.label
        if rewrite.cloze:
            yield Demonstration(kind="copy", fact=told, prompt=rewrite.cloze, target=target)
        if rewrite.question:
            yield Demonstration(kind="update", fact=told, prompt=rewrite.question, style="question", target=target)
        for hop in row.new_single_hops if isinstance(row, MultiHopRow) else ():
            if all(hop.question != other.question for other in row.requested_rewrite):
                yield Demonstration(kind="retain", fact=told, prompt=hop.question, style="question", target=hop.answer)


def _told(rewrite: Rewrite, setting: str) -> str:
    """The text of the edit; of several triplets the first that names subject and new target, or ""."""
    needed = rewrite.subject.lower(), rewrite.target_new.label.lower()
    texts = [edit.text for edit in edits_of(rewrite, setting)]
    if setting != "extract":
        return texts[0]
    return next((text for text in texts if all(name in text.lower() for name in needed)), "")


def _of_chain(row: ChainRow, file: str) -> Iterator[Demonstration]:
    for edit in chain_edits(row, file):
        yield Demonstration(kind="copy", fact=edit.text, prompt=edit.cloze, target=edit.target_new)
        if edit.question:
            yield Demonstration(
                kind="update", fact=edit.text, prompt=edit.question, style="question", target=edit.target_new
            )
        for hop in unedited_hops(row):
            yield Demonstration(kind="retain", fact=edit.text, prompt=hop.question, style="question", target=hop.answer)


def _akew_texts(row: AkewRow) -> Iterator[str]:
    for rewrite in row.requested_rewrite:
        yield from (rewrite.subject, rewrite.question)
    if isinstance(row, MultiHopRow):
        yield from row.questions
        yield from (hop.question for hop in row.new_single_hops)


def _chain_texts(row: ChainRow) -> Iterator[str]:
    for rewrite in row.requested_rewrite:
        yield from (rewrite.subject, rewrite.question)
    yield from row.questions
    yield from (hop.question for hop in (*row.single_hops, *row.new_single_hops))
