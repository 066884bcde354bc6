"""What can be named on the command line."""

from collections.abc import Callable
from typing import Any

from rich.table import Table
from rich.text import Text

from emend.evals.report.escape import one_line
from emend.evals.report.table import console_for
from emend.memory.registry import Registry


def _editors() -> Registry[Any]:
    from emend.editors.registry import EDITORS

    return EDITORS


def _benchmarks() -> Registry[Any]:
    from emend.evals.benchmarks.registry import BENCHMARKS

    return BENCHMARKS


def _retrievers() -> Registry[Any]:
    from emend.memory.retrieval.registry import RETRIEVERS

    return RETRIEVERS


def _judges() -> Registry[Any]:
    from emend.graphs.registry import JUDGES

    return JUDGES


def _models() -> Registry[Any]:
    from emend.agents.llm import MODELS

    return MODELS


def _graphs() -> Registry[Any]:
    from emend.graphs.registry import GRAPHS

    return GRAPHS


KINDS: dict[str, Callable[[], Registry[Any]]] = {
    "editors": _editors,
    "benchmarks": _benchmarks,
    "retrievers": _retrievers,
    "judges": _judges,
    "models": _models,
    "graphs": _graphs,
}


def rows(kind: str) -> list[dict[str, str]]:
    """Name and summary of each part of that kind, plug-ins included."""
    return list(KINDS[kind]().rows())


def show_rows(kind: str, found: list[dict[str, str]]) -> None:
    """Print them as two columns."""
    console = console_for()
    if not found:
        group = KINDS[kind]().group
        console.print(Text(f"There are no {kind} yet. A package can bring some under the entry point {group}."))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for row in found:
        table.add_row(Text(one_line(row["name"])), Text(one_line(row["summary"])))
    console.print(table)
