"""Counterfactual facts with paraphrases and neighbours: a file of CounterFact, or a file of facts with old answers."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from emend.evals.build.source_items import SourceItem, SourceNotes
from emend.evals.data.benchmarks.counterfact.rows import Counterfact, FlatRow, OriginalRow
from emend.evals.data.benchmarks.docter.rows import last_sentence
from emend.evals.data.benchmarks.fact_file.read import HUB, is_fact_file, read_facts
from emend.evals.data.benchmarks.fact_file.rows import FactRow
from emend.evals.data.benchmarks.files import read_numbered, sha256
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadSettings
from emend.memory.json_files import read_json

LABELS = "True", "False"
"""Planned answers of the reasoning questions, in turn."""


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """The facts of a file, and notes on it.

    Raises:
        BadSettings: the source is no file.
        BadData: a row is malformed; names it and its field.
    """
    if not is_fact_file(source):
        raise BadSettings(
            f"documents are written about counterfactual facts, and '{source}' is no file of them: give --from a file "
            "in CounterFact's form, such as counterfact.json, or a file of facts with prompt and old_answer."
        )
    notes = SourceNotes(source)
    if not source.startswith(HUB):
        notes.files[Path(source).name] = sha256(Path(source).expanduser())
    return _items(source, notes), notes


def _items(source: str, notes: SourceNotes) -> Iterator[SourceItem]:
    queries: set[str] = set()
    for fact in _facts(source, notes):
        if fact.query in queries:
            _leave_out(notes, "facts of which the source has another one with the same cloze")
            continue
        queries.add(fact.query)
        new, old = _statement(fact, fact.triplet.object), _statement(fact, fact.true_target)
        yield SourceItem(new, _fields(fact, new, old, LABELS[(len(queries) - 1) % 2]))


def _facts(source: str, notes: SourceNotes) -> Iterator[Counterfact]:
    """The facts of a file, which is CounterFact's if it has cases by number."""
    path = Path(source).expanduser()
    rows: Any = read_json(path, links=True) if path.suffix == ".json" and path.is_file() else None
    if isinstance(rows, list) and rows and isinstance(rows[0], Mapping) and "case_id" in rows[0]:
        rows = _read_original(path) if "requested_rewrite" in rows[0] else _read_flat(path)
        yield from (row.fact for row in rows)
        return
    for number, row in enumerate(read_facts(source, _with_relation), 1):
        if row.subject and row.object and row.old_answer and row.prompt:
            yield _from_row(number, row)
        else:
            _leave_out(notes, "facts without subject, object, prompt and old_answer")


def _read_original(path: Path) -> Iterable[OriginalRow]:
    return read_numbered(path, OriginalRow).values()


def _read_flat(path: Path) -> Iterable[FlatRow]:
    return read_numbered(path, FlatRow).values()


def _with_relation(fields: dict[str, Any]) -> dict[str, Any]:
    """A row in which the cloze stands for the relation, where it has none."""
    return {"relation": fields["prompt"]} | fields if "prompt" in fields else fields


def _from_row(number: int, row: FactRow) -> Counterfact:
    subject, prompt, target = str(row.subject), str(row.prompt), str(row.object)
    triplet = Triplet(subject=subject, relation=row.relation or prompt, object=target)
    neighbours = tuple((each.question, each.answer) for each in row.locality if each.answer)
    return Counterfact(number, triplet, prompt, str(row.old_answer), row.paraphrases, neighbours)


def _leave_out(notes: SourceNotes, reason: str) -> None:
    notes.left_out[reason] = notes.left_out.get(reason, 0) + 1


def _statement(fact: Counterfact, target: str) -> str:
    triplet = fact.triplet.model_copy(update={"object": target})
    return Edit.from_triplet(triplet, fact.template).text


def _fields(fact: Counterfact, new: str, old: str, label: str) -> dict[str, Any]:
    return {
        "subject": fact.triplet.subject,
        "object": fact.triplet.object,
        "old": fact.true_target,
        "fact": new,
        "old_fact": old,
        "prompt": fact.template,
        "query": fact.query,
        "paraphrases": list(fact.paraphrases),
        "short_paraphrases": [last_sentence(text) for text in fact.paraphrases],
        "neighbours": [prompt for prompt, answer in fact.neighbours if answer == fact.true_target],
        "label": label,
    }
