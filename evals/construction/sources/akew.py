"""AKEW from a file of facts, a folder of MQuAKE chains, or the edits of another benchmark."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emend.evals.construction.sources.akew_chains import (
    CHAINS,
    find_chains,
    read_chains,
    write_chains,
)
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceItem,
    SourceNotes,
    write_json,
)
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.facts.fact_formats import is_fact_file, read_facts
from emend.evals.evaluate.resources import load_benchmark
from emend.memory.edit import Edit

FILE = "CounterFact.json"


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return the items of a source and notes on it.

    The source is a folder of chains, a file of facts, or a benchmark whose first setting has the
    edits.

    Raises:
        BadData: a row is malformed; the message names line and field.
        BadSettings: the benchmark is unknown.
    """
    if chains := find_chains(source):
        return read_chains(chains, _fields)
    if is_fact_file(source):
        notes = SourceNotes.of_facts(source)
        edits = ((row.edit, row.aliases) for row in read_facts(source))
    else:
        benchmark, settings = load_benchmark(source, None, {})
        notes = SourceNotes(source, f"that of {benchmark.provenance.get('source', source)}")
        files = benchmark.provenance.get("files", {})
        notes.files = {name: str(file.get("sha256", "")) for name, file in files.items()}
        edits = ((edit, ()) for case in benchmark.cases(settings[0]) for edit in case.edits)
    return _items(edits, notes), notes


def _items(edits: Iterator[tuple[Edit, Sequence[str]]], notes: SourceNotes) -> Iterator[SourceItem]:
    keys: set[tuple[str, ...]] = set()
    for edit, aliases in edits:
        relation = edit.triplets[0].relation if edit.triplets else ""
        key = edit.subject, relation, edit.prompt, edit.target_new
        if not (edit.subject and edit.target_new and (edit.prompt or edit.question)):
            notes.leave_out("facts without subject, new object, or cloze and question")
        elif key in keys:
            notes.leave_out("duplicate facts")
        else:
            keys.add(key)
            yield SourceItem(edit.text, _fields(edit, aliases))


def _fields(edit: Edit, aliases: Sequence[str]) -> dict[str, Any]:
    triplet = edit.triplets[0] if edit.triplets else None
    return {
        "subject": edit.subject,
        "object": edit.target_new,
        "old": edit.target_true,
        "fact": edit.text,
        "prompt": edit.prompt,
        "question": edit.question,
        "relation": triplet.relation if triplet else "",
        "relation_id": triplet.relation_id if triplet else None,
        "object_id": triplet.object_id if triplet else None,
        "aliases": list(aliases),
        "time": edit.time,
    }


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write the records in the format of AKEW's CounterFact.json, or of its MQuAKE-CF.json for
    chains.
    """
    if items and CHAINS in items[0].fields:
        return write_chains(items, folder, rewrite)
    rows = [
        {"case_id": number, "requested_rewrite": rewrite(item)} for number, item in enumerate(items)
    ]
    write_json(folder / FILE, rows)
    return BenchmarkFiles(benchmark="akew", options={"dataset": "counterfact"}, files=(FILE,))


def rewrite(item: KeptItem) -> dict[str, Any]:
    """Return an edit with the field names of AKEW's files."""
    fields, result = item.fields, item.result
    triplets = [
        {"subject": each["subject"], "prompt": f"{{}} {each['relation']}", "target": each["object"]}
        for each in result["triplets"]
    ]
    old = (
        {"target_true": {"str": fields["old"], "id": fields.get("old_id")}} if fields["old"] else {}
    )
    return {
        "subject": fields["subject"],
        "prompt": fields["prompt"],
        "question": fields["question"],
        "relation": fields["relation"],
        "relation_id": fields["relation_id"],
        "target_new": {"str": fields["object"], "id": fields["object_id"]},
        **old,
        "fact_new": fields["fact"],
        "fact_new_uns": result["paragraph"],
        "verify_unsfact_GPT": True,
        "unsfact_triplets_GPT": triplets,
        "answer_new": fields["object"],
        "answer_new_alias": fields["aliases"],
        **({"time_new": {"start_time": fields["time"]}} if fields.get("time") else {}),
    }
