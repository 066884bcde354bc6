"""DocTER's demonstrations: a document's query, a paraphrase and a neighbour."""

from collections.abc import Callable, Iterator, Mapping

from emend.editors.base import Demonstration
from emend.evals.benchmarks.demonstrations import Names, first_of_each, gathered, last_drawn
from emend.evals.benchmarks.docter.rows import EditRow, QueriesRow, ReasoningRow, last_sentence
from emend.memory.edit import Edit


def document_examples(
    tests: Mapping[int, EditRow],
    neighbours: Mapping[int, QueriesRow],
    questions: Mapping[int, ReasoningRow],
    edit_of: Callable[[int], Edit],
    seed: int = 0,
) -> Iterator[Demonstration]:
    """Those of all ids; the subject is told by the query, as documents come without one.

    Args:
        tests: the queries and paraphrases by id.
        neighbours: the neighbours by id.
        questions: the reasoning questions by id, which are not shown; who is named in one is asked about.
        edit_of: the edit of an id.
        seed: the run's.
    """
    names = Names(_texts(number, tests, neighbours, questions) for number in {*tests, *neighbours, *questions})
    rows = last_drawn(tests.values(), lambda row: row.id, seed)
    fitting = (row for row in rows if names.alone_in(row.query))
    return gathered(
        first_of_each(
            _examples(row, neighbours.get(row.id), edit_of(row.id).text),
            lambda one: one.kind != "retain" or names.alone_in(one.prompt),
        )
        for row in fitting
    )


def _examples(row: EditRow, beside: QueriesRow | None, told: str) -> Iterator[Demonstration]:
    yield Demonstration(kind="copy", fact=told, prompt=row.query, target=row.altered_target)
    for text in row.paraphrase_query:
        yield Demonstration(kind="update", fact=told, prompt=last_sentence(text), target=row.altered_target)
    if beside and beside.original_target != row.altered_target:
        for prompt in beside.query:
            yield Demonstration(kind="retain", fact=told, prompt=prompt, target=beside.original_target)


def _texts(
    number: int,
    tests: Mapping[int, EditRow],
    neighbours: Mapping[int, QueriesRow],
    questions: Mapping[int, ReasoningRow],
) -> Iterator[str]:
    if number in tests:
        yield from (tests[number].query, *tests[number].paraphrase_query)
    if number in neighbours:
        yield from neighbours[number].query
    if number in questions:
        yield questions[number].src
