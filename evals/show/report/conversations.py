"""Tables of retrieval over conversations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.measure.conversations import (
    MAIN,
    ConversationReport,
    ConversationRow,
    PairedRow,
    budget_names,
    figure_names,
)
from emend.evals.show.report.layout import (
    Frame,
    bounds,
    counted,
    decimal,
    dim,
    frame,
    interval_note,
)
from emend.memory.escape import one_line

HEADS = {
    "recall@5": "@5",
    "recall@10": "@10",
    "recall@20": "@20",
    "ndcg@10": "nDCG@10",
    "all@10": "all@10",
    "session_recall@5": "session@5",
    "session_ndcg@5": "session nDCG@5",
    "recall_in_budget": "in budget",
    "newer_first": "newer first",
}
STUDENTS = (
    "[95 % intervals over conversations: Student's if they have at least ten questions, otherwise "
    "bootstrap, or Wilson's near 0 and 1]"
)


def render_conversations(report: ConversationReport) -> RenderableType:
    """Render the table in percent, the comparison with the first strategy, and notes."""
    title = one_line(
        f"{report.benchmark}: {counted(report.conversations, 'conversation')}, "
        f"{counted(report.turns, 'turn')}"
    )
    parts: list[RenderableType] = [Text(title, style="bold"), _figures_table(report)]
    if report.pairs:
        heading = f"evidence recall@10 against {report.pairs[0].against}, on the same questions"
        parts += [Text(one_line(heading), style="bold"), _pairs_table(report)]
    return Group(*parts, *dim(conversation_notes(report)))


def _figures_table(report: ConversationReport) -> Frame:
    names = figure_names(report.budgets)
    heads = HEADS | _budget_heads(report.budgets)
    table = frame("kind", "strategy", "n", *_heads(names, heads), "ms", names=2)
    for row in report.rows:
        table.add(row.kind, *_cells(row, names))
    return table


def _budget_heads(budgets: Sequence[int]) -> dict[str, str]:
    """Return the headings of the columns of several budgets, by name of the figure."""
    if len(budgets) < 2:
        return {}
    names = budget_names(budgets)
    return {name: f"in {budget:,}" for name, budget in zip(names, budgets, strict=True)}


def _heads(names: Sequence[str], heads: Mapping[str, str]) -> Iterator[str]:
    for name in names:
        yield heads[name]
        if name == MAIN:
            yield "95 %"


def _cells(row: ConversationRow, names: Sequence[str]) -> Iterator[str | Text]:
    yield from (one_line(row.strategy), str(row.n))
    for name in names:
        figure = row.figures.get(name)
        value = figure.scaled(100) if figure else None
        yield decimal(value.mean if value else None, 1)
        if name == MAIN and value:
            yield bounds(value.low, value.high, 1)
    yield f"{row.ms:.2f}"


def _pairs_table(report: ConversationReport) -> Frame:
    table = frame("kind", "strategy", "n", "difference", "95 %", "p", names=2)
    for row in report.pairs:
        table.add(row.kind, *_pair_cells(row))
    return table


def _pair_cells(row: PairedRow) -> Iterator[str | Text]:
    result = row.result
    yield from (one_line(row.strategy), str(result.n))
    yield decimal(None if result.difference is None else 100 * result.difference, 1)
    yield bounds(result.low, result.high, 1, scale=100)
    yield "-" if result.p is None else f"{result.p:.3g}"


def conversation_notes(report: ConversationReport) -> Iterator[str]:
    """Yield notes that explain the numbers."""
    yield (
        "percent: share of a question's evidence among the first k turns; embedding "
        f"{one_line(report.embedding)}"
    )
    figures = (row.figures.get(MAIN) for row in report.rows)
    intervals = interval_note((each.low for each in figures if each), "conversation", STUDENTS)
    yield f"{intervals}; all@10: questions with all evidence among ten turns"
    sizes = ", ".join(f"{budget:,}" for budget in report.budgets)
    yield f"in budget: evidence among the first turns with a total of {sizes} tokens"
    yield "newer first: updates whose new statement is ranked before the outdated one"
    yield "ms: mean CPU time of a search, without embedding"
    for name, ms in report.build_ms.items():
        yield (
            f"{one_line(name)}: {ms:.0f} ms of CPU time to index a conversation, without embedding"
        )
    if report.skipped:
        yield f"{counted(report.skipped, 'question')} without evidence, excluded"
    if count := report.corrections:
        yield count.sentence


def conversation_lines(report: ConversationReport) -> list[dict[str, Any]]:
    """Return a flat row for each kind and strategy, with means by name, and intervals as
    `NAME_low` and `NAME_high`.
    """
    lines = []
    for row in report.rows:
        line: dict[str, Any] = {
            "strategy": row.strategy,
            "kind": row.kind,
            "n": row.n,
            "ms": row.ms,
        }
        for name, figure in row.figures.items():
            line |= {name: figure.mean, f"{name}_n": figure.n}
            line |= {f"{name}_low": figure.low, f"{name}_high": figure.high}
        lines.append(line)
    return lines
