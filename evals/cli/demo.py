"""The first thing a newcomer runs: five editors on edits to the embedded model's invented world."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from emend.evals.log.config import RunConfig
from emend.evals.log.manifest import Manifest
from emend.evals.report.escape import one_line
from emend.evals.report.table import console_for, legend

BENCHMARK = "tinyworld"
EDITORS = ("unedited", "in_context", "rag", "ike", "ft")


def demo_config(edits: int, editors: list[str] | None, concurrency: int) -> RunConfig:
    """All edits stand at once, as tinyworld has it: an editor must find, and must not blur, the right one.

    Raises:
        BadSettings: fewer than one edit.
    """
    return RunConfig(
        benchmark=BENCHMARK,
        editors=tuple(dict.fromkeys(editors or EDITORS)),
        limit=edits,
        concurrency=concurrency,
    )


def after(folder: Path) -> None:
    """Say what the columns mean, and what to look at next."""
    from emend.editors.registry import EDITORS as KNOWN

    manifest = Manifest.read(folder)
    console = console_for()
    summaries = {row["name"]: row["summary"] for row in KNOWN.rows()}
    told = [(name, summaries.get(name, "")) for name in manifest.config.editors]
    for heading, lines in (("What the rows are", told), ("What the columns mean", legend(manifest.metrics))):
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for name, summary in lines:
            table.add_row(Text("  " + one_line(name)), Text(one_line(summary)))
        console.print(Text("\n" + heading, style="bold"), table)
    console.print(Text("\nWhat happened to one case, node by node", style="bold"))
    fingerprints = next(iter(manifest.editors.values()))
    with_graph = [name for name, told in fingerprints.items() if "graph" in told]
    shown = (with_graph or list(fingerprints))[-1]
    console.print(Text(f"  emend trace {folder} 1 --editor {shown} --kind efficacy"), soft_wrap=True)
