"""DocTER's files of the items that are kept."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.build.source_items import KeptItem
from emend.evals.data.benchmarks.built import BenchmarkFiles
from emend.evals.data.benchmarks.docter.benchmark import DIRECTIONS, DOCUMENTS, FACTS, LOCALITY, REASONING, SUCCESS
from emend.memory.files import replace_file

OTHER_LANGUAGE = "facts.jsonl"
CROSSED = {("zh", "en"): "cross_zh_en", ("en", "zh"): "cross_en_zh"}
"""Blocks of DocTER by the languages of documents and queries."""
CHINESE_QUERIES, ENGLISH_QUERIES = (DIRECTIONS[block][2] for block in ("cross_en_zh", "cross_zh_en"))
LIMITS = (
    "The documents are a model's: besides the fact they state evidence that is invented.",
    "Whether the source's true objects are true today is not checked; emend build fresh leaves out what a model knows.",
    "What a reasoning question takes for granted about an object is a model's knowledge, checked by a judge at most.",
)


class NumberedItem(NamedTuple):
    """An item with its number. Numbers are even: a False question has that before the number of its document."""

    number: int
    fields: Mapping[str, Any]
    result: Mapping[str, Any]


def written_document(item: KeptItem) -> str:
    """The document of an item."""
    return str(item.result["document"])


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write DocTER's files; for languages that it lacks, a file of facts whose edits are the documents."""
    numbered = [NumberedItem(2 * place, *item) for place, item in enumerate(items, 1)]
    language, queries = (numbered[0].result[name] for name in ("language", "queries"))
    if language == queries == "en":
        return _write_english(numbered, folder)
    if (language, queries) in CROSSED:
        return _write_crossed(numbered, CROSSED[language, queries], folder)
    lines = [json.dumps(_fact_row(item), ensure_ascii=False) + "\n" for item in numbered]
    replace_file(folder / OTHER_LANGUAGE, "".join(lines).encode())
    return BenchmarkFiles(benchmark="facts", files=(OTHER_LANGUAGE,))


def _write_english(items: Sequence[NumberedItem], folder: Path) -> BenchmarkFiles:
    tables = {
        DOCUMENTS: [{"id": item.number, "src": item.result["document"]} for item in items],
        SUCCESS: [_success(item) for item in items],
        LOCALITY: [_queries(item, item.fields["neighbours"]) for item in items if item.fields["neighbours"]],
        REASONING: list(balanced_questions(items)),
        FACTS: [_gold_fact(item) for item in items],
    }
    blocks = {"edit_success": SUCCESS, "locality": LOCALITY, "reasoning": REASONING}
    with_rows = [block for block, file in blocks.items() if tables[file]]
    files = [name for name, rows in tables.items() if rows]
    for name in files:
        _write(folder / name, tables[name])
    return BenchmarkFiles(benchmark="docter", options={"blocks": ",".join(with_rows)}, files=tuple(files))


def _write_crossed(items: Sequence[NumberedItem], block: str, folder: Path) -> BenchmarkFiles:
    """Documents in one language, and the queries in both, of which the block asks those in the other one."""
    documents = DIRECTIONS[block][1]
    _write(folder / documents, [{"id": item.number, "src": item.result["document"]} for item in items])
    _write(folder / ENGLISH_QUERIES, _all_queries(items))
    _write(folder / CHINESE_QUERIES, _all_queries(item._replace(fields=item.result["translated"]) for item in items))
    files = (documents, CHINESE_QUERIES, ENGLISH_QUERIES)
    return BenchmarkFiles(benchmark="docter", options={"blocks": block}, files=files)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    replace_file(path, (json.dumps({"data": list(rows)}, ensure_ascii=False, indent=1) + "\n").encode())


def _success(item: NumberedItem) -> dict[str, Any]:
    return {**_targets(item), "query": item.fields["query"], "paraphrase_query": item.fields["paraphrases"]}


def _queries(item: NumberedItem, queries: Sequence[str]) -> dict[str, Any]:
    return {**_targets(item), "query": list(queries)}


def _all_queries(items: Iterable[NumberedItem]) -> list[dict[str, Any]]:
    return [_queries(item, [item.fields["query"], *item.fields["paraphrases"]]) for item in items]


def _targets(item: NumberedItem) -> dict[str, Any]:
    return {"id": item.number, "original_target": item.fields["old"], "altered_target": item.fields["object"]}


def _gold_fact(item: NumberedItem) -> dict[str, Any]:
    return {**_targets(item), "subject": item.fields["subject"], "prompt_template": item.fields["prompt"]}


def balanced_questions(items: Iterable[NumberedItem]) -> Iterator[dict[str, Any]]:
    """Questions to be answered by yes and by no in turn; the last ones of the commoner answer are left."""
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
