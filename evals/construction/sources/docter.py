"""DocTER source reader for counterfactual facts, and writer of its files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceItem,
    SourceNotes,
    write_json,
    write_lines,
)
from emend.evals.data.benchmarks.counterfact import Counterfact, FlatRow, OriginalRow
from emend.evals.data.benchmarks.docter.benchmark import (
    DIRECTIONS,
    DOCUMENTS,
    FACTS,
    LOCALITY,
    REASONING,
    SUCCESS,
)
from emend.evals.data.benchmarks.docter.rows import last_sentence
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import read_numbered
from emend.evals.data.facts.fact_formats import is_fact_file, read_facts
from emend.evals.data.facts.fact_rows import FactRow
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadSettings
from emend.memory.json_files import read_json

# Planned answers of the reasoning questions, alternating.
LABELS = "True", "False"


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return the facts of a file as items, and notes on the file.

    Raises:
        BadSettings: the source is not a file of facts.
        BadData: a row is malformed; the message names row and field.
    """
    if not is_fact_file(source):
        raise BadSettings(
            f"documents are written about counterfactual facts, but '{source}' contains none: "
            "give --from a file in CounterFact's form, such as counterfact.json, or a file of "
            "facts with prompt and old_answer."
        )
    notes = SourceNotes.of_facts(source)
    return _items(source, notes), notes


def _items(source: str, notes: SourceNotes) -> Iterator[SourceItem]:
    queries: set[str] = set()
    for fact in _facts(source, notes):
        if fact.query in queries:
            notes.leave_out("facts with the same cloze as another fact of the source")
            continue
        queries.add(fact.query)
        new, old = _statement(fact, fact.triplet.object), _statement(fact, fact.true_target)
        yield SourceItem(new, _fields(fact, new, old, LABELS[(len(queries) - 1) % 2]))


def _facts(source: str, notes: SourceNotes) -> Iterator[Counterfact]:
    """Yield the facts of a file; a JSON file whose rows have `case_id` is read as CounterFact."""
    path = Path(source).expanduser()
    rows: Any = read_json(path, links=True) if path.suffix == ".json" and path.is_file() else None
    if isinstance(rows, list) and rows and isinstance(rows[0], Mapping) and "case_id" in rows[0]:
        form: type[OriginalRow | FlatRow] = (
            OriginalRow if "requested_rewrite" in rows[0] else FlatRow
        )
        yield from (row.fact for row in read_numbered(path, form).values())
        return
    for number, row in enumerate(read_facts(source, _with_relation), 1):
        if row.subject and row.object and row.old_answer and row.edit.prompt:
            yield _from_row(number, row)
        else:
            notes.leave_out("facts without subject, object, prompt and old_answer")


def _with_relation(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose relation defaults to its cloze prompt."""
    return {"relation": fields["prompt"]} | fields if "prompt" in fields else fields


def _from_row(number: int, row: FactRow) -> Counterfact:
    subject, prompt, target = str(row.subject), row.edit.prompt, str(row.object)
    triplet = Triplet(subject=subject, relation=row.relation or prompt, object=target)
    neighbours = tuple((each.question, each.answer) for each in row.locality if each.answer)
    return Counterfact(number, triplet, prompt, str(row.old_answer), row.paraphrases, neighbours)


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


OTHER_LANGUAGE = "facts.jsonl"
# DocTER's blocks by the languages of documents and queries.
CROSSED = {("zh", "en"): "cross_zh_en", ("en", "zh"): "cross_en_zh"}
CHINESE_QUERIES, ENGLISH_QUERIES = (
    DIRECTIONS[block][2] for block in ("cross_en_zh", "cross_zh_en")
)


class NumberedItem(NamedTuple):
    """Item with an even number; a question with the answer False has the number of its document
    minus 1.
    """

    number: int
    fields: Mapping[str, Any]
    result: Mapping[str, Any]


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write DocTER's files; for languages that DocTER lacks, write a file of facts with the
    documents as edits.
    """
    numbered = [NumberedItem(2 * place, *item) for place, item in enumerate(items, 1)]
    language, queries = (numbered[0].result[name] for name in ("language", "queries"))
    if language == queries == "en":
        return _write_english(numbered, folder)
    if (language, queries) in CROSSED:
        return _write_crossed(numbered, CROSSED[language, queries], folder)
    write_lines(folder / OTHER_LANGUAGE, map(_fact_row, numbered))
    return BenchmarkFiles(benchmark="facts", files=(OTHER_LANGUAGE,))


def _write_english(items: Sequence[NumberedItem], folder: Path) -> BenchmarkFiles:
    tables = {
        DOCUMENTS: [{"id": item.number, "src": item.result["document"]} for item in items],
        SUCCESS: [_success(item) for item in items],
        LOCALITY: [
            _queries(item, item.fields["neighbours"]) for item in items if item.fields["neighbours"]
        ],
        REASONING: list(balanced_questions(items)),
        FACTS: [_gold_fact(item) for item in items],
    }
    blocks = {"edit_success": SUCCESS, "locality": LOCALITY, "reasoning": REASONING}
    with_rows = [block for block, file in blocks.items() if tables[file]]
    files = [name for name, rows in tables.items() if rows]
    for name in files:
        _write(folder / name, tables[name])
    return BenchmarkFiles(
        benchmark="docter", options={"blocks": ",".join(with_rows)}, files=tuple(files)
    )


def _write_crossed(items: Sequence[NumberedItem], block: str, folder: Path) -> BenchmarkFiles:
    """Write documents in one language and queries in both; the block uses the queries in the other
    language.
    """
    documents = DIRECTIONS[block][1]
    _write(
        folder / documents, [{"id": item.number, "src": item.result["document"]} for item in items]
    )
    _write(folder / ENGLISH_QUERIES, _all_queries(items))
    _write(
        folder / CHINESE_QUERIES,
        _all_queries(item._replace(fields=item.result["translated"]) for item in items),
    )
    files = (documents, CHINESE_QUERIES, ENGLISH_QUERIES)
    return BenchmarkFiles(benchmark="docter", options={"blocks": block}, files=files)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    write_json(path, {"data": list(rows)})


def _success(item: NumberedItem) -> dict[str, Any]:
    return {
        **_targets(item),
        "query": item.fields["query"],
        "paraphrase_query": item.fields["paraphrases"],
    }


def _queries(item: NumberedItem, queries: Sequence[str]) -> dict[str, Any]:
    return {**_targets(item), "query": list(queries)}


def _all_queries(items: Iterable[NumberedItem]) -> list[dict[str, Any]]:
    return [_queries(item, [item.fields["query"], *item.fields["paraphrases"]]) for item in items]


def _targets(item: NumberedItem) -> dict[str, Any]:
    return {
        "id": item.number,
        "original_target": item.fields["old"],
        "altered_target": item.fields["object"],
    }


def _gold_fact(item: NumberedItem) -> dict[str, Any]:
    return {
        **_targets(item),
        "subject": item.fields["subject"],
        "prompt_template": item.fields["prompt"],
    }


def balanced_questions(items: Iterable[NumberedItem]) -> Iterator[dict[str, Any]]:
    """Yield questions with answers yes and no alternately; surplus questions of the more frequent
    answer are dropped.
    """
    by_label: dict[str, list[dict[str, Any]]] = {"True": [], "False": []}
    for item in items:
        if question := item.result["reasoning"]:
            number = item.number - (question["label"] == "False")
            by_label[question["label"]].append({"id": number, **question})
    for pair in zip(*by_label.values(), strict=False):
        yield from pair


def _fact_row(item: NumberedItem) -> dict[str, Any]:
    asked_in_english = item.result["queries"] == "en"
    fact = item.fields if asked_in_english else item.result["translated"]
    return {
        "document": item.result["document"],
        "question": fact["query"],
        "answer": fact["object"],
        "old_answer": fact["old"],
        "paraphrases": fact["paraphrases"],
    }
