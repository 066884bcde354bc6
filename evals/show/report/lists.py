"""Terminal output of lists: settings, runs, and the edits and facts of a memory."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.results.aggregate.runs import RunRow
from emend.evals.show.report.layout import Frame, frame
from emend.memory.edit import Edit
from emend.memory.escape import one_line, safe
from emend.memory.redaction import key_hider

if TYPE_CHECKING:  # these modules import numpy or read docstrings, which slows down listing runs
    from emend.evals.show.settings import PresetRow, SettingRow
    from emend.memory.retrieval.base import Entry, Hit
    from emend.memory.store.history import FactHistory, MemoryStats


def render_settings(
    settings: "Sequence[SettingRow]", presets: "Sequence[PresetRow]"
) -> RenderableType:
    """Render the name, type, default, source and description of each setting.

    The presets of an editor follow its settings.
    """
    parts: list[RenderableType] = []
    for part, rows in groupby(settings, key=lambda row: row.part):
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for row in rows:
            grid.add_row(f"  {one_line(row.setting)}", _explanation(row))
        for preset in (preset for preset in presets if preset.editor == part):
            values = " ".join(
                f"{name}={json.dumps(value)}" for name, value in preset.values.items()
            )
            verified = Text(one_line(preset.verified), style="dim")
            if values:
                verified = Text(f"{values}\n").append(verified)
            grid.add_row(Text(f"  [{preset.preset}]"), verified)
        parts += [Text(part, style="bold underline"), grid, Text("")]
    if parts:
        return Group(*parts)
    return Text("no settings", style="dim")


def _explanation(row: "SettingRow") -> Text:
    if row.default is None:
        default = ""
    else:
        default = f", default {json.dumps(row.default)}"
    text = Text(one_line(f"{row.type}{default} ({row.source})"), style="cyan")
    if row.summary:
        return text.append(f"\n{one_line(row.summary)}", style="none")
    return text


def render_runs(runs: Sequence[RunRow], folder: Path) -> Frame:
    """Return a table with one row per run."""
    table = frame(
        "run", "started", "benchmark", "model", "editors", "mode", "units", "failed", names=6
    )
    hide = key_hider()
    for run in runs:
        if run.folder == str(folder):
            name = run.folder
        else:
            name = Path(run.folder).name
        units = f"{run.finished} of {run.units}"
        started = run.started[:16].replace("T", " ")
        cells = (
            name,
            started,
            run.benchmark,
            run.model,
            ", ".join(run.editors),
            run.mode,
            units,
            str(run.failed or ""),
        )
        table.add_row(*(Text(one_line(cell, hide=hide)) for cell in cells))
    return table


def show_hits(hits: "Sequence[Hit]", console: Console) -> None:
    """Print a table of search hits, best first."""
    if not hits:
        console.print(Text("nothing found"))
        return
    table = _table("score", "edit", "time", "text", named_by=2)
    for hit in hits:
        entry = hit.entry
        score = Text(
            f"{hit.score:.3f}" if abs(hit.score) >= 0.1 else f"{hit.score:.3g}", justify="right"
        )
        details = (Text(one_line(part)) for part in (entry.edit_id, entry.time or ""))
        table.add_row(score, *details, Text(one_line(entry.text, 300)))
    console.print(table)


def edit_row(edit: Edit, entries: "Mapping[Entry, bool]") -> dict[str, Any]:
    """Return an edit as JSON, with the numbers of all and of current entries."""
    return {
        "edit": edit.model_dump(mode="json"),
        "entries": len(entries),
        "current": sum(entries.values()),
    }


def fact_rows(facts: "Sequence[FactHistory]") -> list[dict[str, Any]]:
    """Return one row for each version of each fact, oldest first."""
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


def show_edit(edit: Edit, entries: "Mapping[Entry, bool]", console: Console) -> None:
    """Print an edit with its id, form, time, status and text."""
    current = sum(entries.values())
    standing = "superseded"
    if current == len(entries):
        standing = "current"
    if 0 < current < len(entries):
        standing = f"{current} of {len(entries)} entries current"
    head = f"{edit.id}  {edit.form}  {edit.time or 'no time'}  "
    console.print(
        Text(one_line(head), style="bold").append(standing, style="green" if current else "yellow")
    )
    console.print(Text(safe(edit.text)))


def show_facts(facts: "Sequence[FactHistory]", console: Console) -> None:
    """Print each fact with its values, oldest first."""
    for fact in facts:
        console.print(Text(f"\n{one_line(fact.subject)} - {one_line(fact.relation)}", style="bold"))
        table = _table("", "value", "time", "edit", "form", named_by=1)
        for version in fact.versions:
            if version.current:
                mark = Text("current", style="green")
            else:
                mark = Text("superseded", style="dim")
            value = Text(one_line(", ".join(version.objects), 200))
            edit = version.edit
            table.add_row(
                mark,
                value,
                *(Text(one_line(part)) for part in (edit.time or "", edit.id, edit.form)),
            )
        console.print(table)


def show_stats(where: str, stats: "MemoryStats", console: Console) -> None:
    """Print the counts of a memory."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in stats.kinds.items()) or "none"
    times = "none"
    if stats.first:
        times = f"{stats.first} to {stats.last}"
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
    """Return an empty table.

    In a narrow terminal, the first `named_by` columns are printed above the others.
    """
    table = Frame(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
    table.names = named_by
    for name in names:
        table.add_column(name, no_wrap=name not in ("text", "value"), overflow="fold")
    return table
