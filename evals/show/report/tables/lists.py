"""Lists of settings with their meaning, and of runs."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.results.aggregate.runs import RunRow
from emend.evals.show.lists.settings_list import PresetRow, SettingRow
from emend.evals.show.report.tables.layout import Frame, frame
from emend.memory.escape import one_line
from emend.memory.redaction import key_hider


def render_settings(settings: Sequence[SettingRow], presets: Sequence[PresetRow]) -> RenderableType:
    """Name, type, default, its source and the meaning of each setting; the presets of an editor below its settings."""
    parts: list[RenderableType] = []
    for part, rows in groupby(settings, key=lambda row: row.part):
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for row in rows:
            grid.add_row(f"  {one_line(row.setting)}", _explanation(row))
        for preset in (preset for preset in presets if preset.editor == part):
            values = " ".join(f"{name}={json.dumps(value)}" for name, value in preset.values.items())
            verified = Text(one_line(preset.verified), style="dim")
            grid.add_row(Text(f"  [{preset.preset}]"), Text(f"{values}\n").append(verified) if values else verified)
        parts += [Text(part, style="bold underline"), grid, Text("")]
    return Group(*parts) if parts else Text("no settings", style="dim")


def _explanation(row: SettingRow) -> Text:
    default = "" if row.default is None else f", default {json.dumps(row.default)}"
    text = Text(one_line(f"{row.type}{default} ({row.source})"), style="cyan")
    return text.append(f"\n{one_line(row.summary)}", style="none") if row.summary else text


def render_runs(runs: Sequence[RunRow], folder: Path) -> Frame:
    """A table with a row per run."""
    table = frame("run", "started", "benchmark", "model", "editors", "mode", "units", "failed", names=6)
    hide = key_hider()
    for run in runs:
        name = run.folder if run.folder == str(folder) else Path(run.folder).name
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
