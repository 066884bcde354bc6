"""Tables of `emend memory`: hits, edits, facts with their history, counts."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.show.report.layout import Frame
from emend.memory.edit import Edit
from emend.memory.escape import one_line, safe
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.store.history import FactHistory, MemoryStats


def show_hits(hits: Sequence[Hit], console: Console) -> None:
    """A table of what was found, best first."""
    if not hits:
        console.print(Text("nothing found"))
        return
    table = _table("score", "edit", "time", "text", named_by=2)
    for hit in hits:
        entry = hit.entry
        score = Text(f"{hit.score:.3f}" if abs(hit.score) >= 0.1 else f"{hit.score:.3g}", justify="right")
        details = (Text(one_line(part)) for part in (entry.edit_id, entry.time or ""))
        table.add_row(score, *details, Text(one_line(entry.text, 300)))
    console.print(table)


def edit_row(edit: Edit, entries: Mapping[Entry, bool]) -> dict[str, Any]:
    """An edit as JSON, and how many of its entries are current."""
    return {"edit": edit.model_dump(mode="json"), "entries": len(entries), "current": sum(entries.values())}


def fact_rows(facts: Sequence[FactHistory]) -> list[dict[str, Any]]:
    """Table with a row for each version of each fact, oldest first."""
    return [
        {
            "subject": fact.subject,
            "relation": fact.relation,
            "objects": list(version.objects),
            "current": version.current,
            "time": version.edit.time,
            "edit": version.edit.model_dump(mode="json"),
        }
        for fact in facts
        for version in fact.versions
    ]


def show_edit(edit: Edit, entries: Mapping[Entry, bool], console: Console) -> None:
    """The edit with all that it says."""
    current = sum(entries.values())
    standing = "current" if current == len(entries) else "superseded"
    if 0 < current < len(entries):
        standing = f"{current} of {len(entries)} entries current"
    head = f"{edit.id}  {edit.form}  {edit.time or 'no time'}  "
    console.print(Text(one_line(head), style="bold").append(standing, style="green" if current else "yellow"))
    console.print(Text(safe(edit.text)))


def show_facts(facts: Sequence[FactHistory], console: Console) -> None:
    """Each fact with its values, oldest first."""
    for fact in facts:
        console.print(Text(f"\n{one_line(fact.subject)} - {one_line(fact.relation)}", style="bold"))
        table = _table("", "value", "time", "edit", "form", named_by=1)
        for version in fact.versions:
            mark = Text("current", style="green") if version.current else Text("superseded", style="dim")
            value = Text(one_line(", ".join(version.objects), 200))
            edit = version.edit
            table.add_row(mark, value, *(Text(one_line(part)) for part in (edit.time or "", edit.id, edit.form)))
        console.print(table)


def show_stats(where: str, stats: MemoryStats, console: Console) -> None:
    """The counts in words."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in stats.kinds.items()) or "none"
    times = f"{stats.first} to {stats.last}" if stats.first else "none"
    rows = {
        "memory": where,
        "embedding": stats.embedding,
        "superseding": stats.superseding,
        "edits": f"{stats.edits:,}, {stats.superseded:,} of them superseded",
        "entries": f"{stats.entries:,}, {stats.current:,} of them current",
        "kinds": kinds,
        "facts": f"{stats.facts:,}, {stats.changed_facts:,} of them with more than one edit",
        "times": times,
    }
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="bold"), Text(one_line(value)))
    console.print(table)


def _table(*names: str, named_by: int) -> Frame:
    """An empty table; in a narrow terminal the first `named_by` columns stand above the others of their row."""
    table = Frame(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
    table.names = named_by
    for name in names:
        table.add_column(name, no_wrap=name not in ("text", "value"), overflow="fold")
    return table
