"""Overview of the papers' figures that can be run, with reasons for the others."""

from collections.abc import Collection, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.agents.weight_differences import difference_remedy
from emend.evals.papers.reproduce.needs import (
    EXECUTABLE,
    STATUSES,
    CoverageRow,
    status_counts,
)
from emend.evals.papers.tables import gpu_gigabytes, paper_models
from emend.evals.papers.tables import table as find_table


def render_coverage(rows: Sequence[CoverageRow]) -> RenderableType:
    """Render a line per table and reason, with totals."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("table", no_wrap=True)
    table.add_column("figures", justify="right", no_wrap=True)
    table.add_column("status, and why", overflow="fold")
    last_name = ""
    for row in rows:
        name = ""
        if row.table != last_name:
            name = last_name = row.table
        status = Text(STATUSES[row.status])
        if row.reason:
            status.append(f": {row.reason}", style="dim")
        table.add_row(name, f"{row.figures:,}", status)
    sums = status_counts(rows)
    lines = [Text(f"{sums[status]:>7,}  {text}") for status, text in STATUSES.items()]
    executable = sum(sums[status] for status in EXECUTABLE)
    whole = (
        f"{executable:,} of {sum(sums.values()):,} figures can be reproduced, directly or with an "
        f"option, with the papers' models on one GPU of {gpu_gigabytes():.0f} GB"
    )
    return Group(
        table, *lines, Text(whole, style="bold"), Text(), _models({row.table for row in rows})
    )


def _models(names: Collection[str]) -> RenderableType:
    """Render a line per open model of these tables, with the facts known of its weights."""
    used = dict.fromkeys(cell.model for name in sorted(names) for cell in find_table(name).cells)
    grid = Table.grid(padding=(0, 2))
    for name in used:
        model = paper_models().get(name)
        if model is not None and model.hub:
            parts = (
                f"{model.parameters} billion parameters",
                model.card,
                difference_remedy(model.hub),
            )
            grid.add_row(
                Text(name), Text(model.hub), Text("; ".join(filter(None, parts)), style="dim")
            )
    return grid
