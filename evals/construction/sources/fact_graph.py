"""Edited chains of facts, and files of the facts that documents state."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emend.evals.construction.sources.stored_items import KeptItem, SourceNotes, write_lines
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.facts.fact_graph import FactHop, FactTable
from emend.evals.data.facts.templates import default_templates
from emend.graphs.construction.fact_lines import FactLine


@dataclass(frozen=True)
class Chain:
    """Chain of facts before and after edits; `edited` are 0-based positions of edited hops."""

    old: tuple[FactHop, ...]
    new: tuple[FactHop, ...]
    edited: tuple[int, ...]

    @property
    def start(self) -> str:
        """First entity, the only one that questions name."""
        return self.old[0].subject

    @property
    def relations(self) -> tuple[str, ...]:
        """Relations of the hops, in order."""
        return tuple(hop.relation for hop in self.old)

    @property
    def edits(self) -> tuple[FactHop, ...]:
        """Edited hops with their new objects."""
        return tuple(self.new[place] for place in self.edited)


FILE = "facts.jsonl"


def stated_lines(item: KeptItem) -> str:
    """Return the facts of a document, one per line."""
    return "\n".join(
        f"{fact['subject']} | {fact['relation']} | {fact['object']}"
        for fact in item.result["facts"]
    )


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write a file of distinct facts, tagged with their document and the sentence that names the
    object.
    """
    rows = dict[FactLine, dict[str, Any]]()
    for item in items:
        for fact in item.result["facts"]:
            line = FactLine(fact["subject"], fact["relation"], fact["object"])
            row = {
                **line._asdict(),
                "prompt": default_templates(line.relation)["cloze"],
                "tags": {"document": item.fields["name"], "proof": fact["sentence"]},
            }
            rows.setdefault(line, row)
    write_lines(folder / FILE, rows.values())
    return BenchmarkFiles(benchmark="facts", files=(FILE,))


def notes_on_table(source: str, table: FactTable) -> SourceNotes:
    """Return notes on a file of facts, with the counts of left-out rows."""
    notes = SourceNotes.of_facts(source)
    notes.left_out |= table.left_out
    return notes
