"""Lists of settings and of runs, and what a run is expected to need."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.agents.llm import is_local_spec
from emend.evals.results.aggregate.runs import RunRow
from emend.evals.results.estimates.dry_run import (
    COUNTS,
    HOPS,
    REPLY_SHARE,
    SECONDS_PER_CALL,
    UNTAUGHT,
    DryRun,
)
from emend.evals.results.estimates.local_model import SPREAD
from emend.evals.show.lists import PresetRow, SettingRow
from emend.evals.show.report.layout import Frame, frame
from emend.evals.show.report.progress import duration
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


def _time_text(estimate: DryRun) -> str:
    """Format the time of a run: of a local model as a range."""
    if estimate.seconds is None:
        return ""
    if is_local_spec(estimate.model):
        low, high = duration(estimate.seconds / SPREAD), duration(estimate.seconds * SPREAD)
        return f", {low} to {high} at the speed of this machine now"
    return f", {estimate.seconds / 60:,.0f} min at {SECONDS_PER_CALL:g} s a call"


def estimate_lines(estimate: DryRun) -> list[str]:
    """Format an estimate, and what it assumes."""
    lines = [f"{estimate.model}: nothing is asked in a dry run"]
    for row in estimate.rows:
        place = (
            f"  {row.setting}, {row.editor}: {row.units:,} units"
            if row.setting
            else "  unedited answers, to compare with:"
        )
        lines.append(f"{place}, {amounts(row.calls, row.input_tokens, row.output_tokens)}".replace(":,", ":"))
    lines += [f"  {line}" for line in estimate.needs]
    whole = f"{estimate.total('units'):,} units, {amounts(*map(estimate.total, COUNTS))}"
    unknown = "" if is_local_spec(estimate.model) else " (give one with --prices FILE)"
    cost = f"no price{unknown}" if estimate.cost is None else f"{estimate.cost:,.2f} {estimate.currency}"
    lines.append(f"  in all: {whole}, {cost}{_time_text(estimate)}")
    replies = "replies as long as the benchmark's answers"
    if is_local_spec(estimate.model):
        replies = (
            f"replies of {REPLY_SHARE:.0%} of their limit, {UNTAUGHT * REPLY_SHARE:.0%} without an edit in the prompt"
        )
    lines.append(
        f"  Units are counted; the rest is estimated from {estimate.sample}: 4 characters a token, "
        f"{replies}, {HOPS} subquestions for mello, one tool for agent; no thoughts, retries or cache."
    )
    return lines


def amounts(calls: int, tokens_in: int, tokens_out: int) -> str:
    """Format numbers of calls and tokens."""
    return f"{calls:,} calls, {tokens_in:,} tokens in, {tokens_out:,} out"
