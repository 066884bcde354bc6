"""Explanation under the table of `emend demo`: its editors and metrics, and a command that shows one case."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.editors.registry import EDITORS
from emend.evals.log.manifest import Manifest
from emend.evals.show.report.tables.metrics import legend
from emend.memory.escape import one_line


def show_explanation(manifest: Manifest, folder: Path, console: Console) -> None:
    """Print what the editors and metrics are, and a command that shows one case."""
    summaries = {row["name"]: row["summary"] for row in EDITORS.rows()}
    editors = [(name, summaries.get(name, "")) for name in manifest.config.editors]
    for heading, lines in (("Editors", editors), ("Metrics", legend(manifest.metrics))):
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for name, summary in lines:
            table.add_row(Text("  " + one_line(name)), Text(one_line(summary)))
        console.print(Text("\n" + heading, style="bold"), table)
    console.print(Text("\nOne case, node by node", style="bold"))
    fingerprints = next(iter(manifest.editors.values()))
    with_graph = [name for name, fingerprint in fingerprints.items() if "graph" in fingerprint]
    example = (with_graph or list(fingerprints))[-1]
    console.print(Text(f"  emend trace {folder} 1 --editor {example} --kind efficacy"), soft_wrap=True)
    console.print(Text("\nAll of it in a browser", style="bold"))
    console.print(Text(f"  emend view {folder}"), soft_wrap=True)
