"""Facts that a folder of documents states: a file of facts, from which other benchmarks are composed."""

import json
from collections.abc import Sequence
from pathlib import Path

from emend.evals.build.chains.templates import default_templates
from emend.evals.build.source_items import KeptItem
from emend.evals.data.benchmarks.built import BenchmarkFiles
from emend.graphs.construction.fact_lines import FactLine
from emend.memory.files import replace_file

FILE = "facts.jsonl"
LIMITS = (
    "Relations are an author's words; facts of one kind may have several, and are not compared then.",
    "A subject with several objects of one relation is left out where questions are composed.",
)


def stated_lines(item: KeptItem) -> str:
    """The facts of a document, a line each."""
    return "\n".join(f"{fact['subject']} | {fact['relation']} | {fact['object']}" for fact in item.result["facts"])


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write a file of facts, each once, with its document and the sentence that names its object as tags."""
    rows = dict[FactLine, str]()
    for item in items:
        for fact in item.result["facts"]:
            line = FactLine(fact["subject"], fact["relation"], fact["object"])
            row = {
                **line._asdict(),
                "prompt": default_templates(line.relation)["cloze"],
                "tags": {"document": item.fields["name"], "proof": fact["sentence"]},
            }
            rows.setdefault(line, json.dumps(row, ensure_ascii=False))
    replace_file(folder / FILE, "".join(f"{row}\n" for row in rows.values()).encode())
    return BenchmarkFiles(benchmark="facts", files=(FILE,))
