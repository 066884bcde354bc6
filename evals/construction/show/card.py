"""Terminal view of a benchmark's card."""

from collections.abc import Mapping
from itertools import islice

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.construction.card import Card, percent
from emend.evals.construction.fresh import FRESH
from emend.memory.escape import one_line

# Maximum number of unreadable documents named in a terminal.
NAMED = 10


def render_card(card: Card) -> RenderableType:
    """Return the counts of a card: the outcome of each filter, the kept items, and the cost."""
    if card.kind == FRESH:
        return _known_table(card)
    title = f"{card.kind}, recipe {card.recipe}"
    table = Table(box=None, padding=(0, 2), title=title, title_justify="left")
    for name, right in (
        ("filter", False),
        ("reached", True),
        ("passed in the end", False),
        ("rejected", True),
    ):
        table.add_column(name, justify="right" if right else "left")
    table.add_column("rejects", style="dim")
    for each in card.filters:
        table.add_row(
            each.name,
            str(each.reached),
            percent(each.passed),
            "" if each.rejected is None else str(each.rejected),
            Text(each.rejects),
        )
    lines = [
        f"kept {percent(card.kept_share)} items, {card.attempts} attempts, {card.failed} "
        f"failed; {card.status}"
    ]
    if card.dropped:
        lines.append(
            "dropped: " + ", ".join(f"{count} {name}" for name, count in card.dropped.items())
        )
    lines += unread_lines(card.source.get("unread", {}))
    per = card.cost_per_kept.get("calls", 0.0)
    lines.append(
        f"{card.cost.calls} calls, {card.cost.input_tokens:,} tokens in, "
        f"{card.cost.output_tokens:,} out; {per:.1f} calls for each kept item"
    )
    head = (table, Text()) if card.filters else (Text(title, style="table.title"),)
    return Group(*head, *(Text(one_line(line)) for line in lines))


def unread_lines(unread: Mapping[str, str]) -> list[str]:
    """Return a line with the reason for each unreadable document, and a count of those beyond the
    first `NAMED`.
    """
    lines = [f"left out: {name}: {reason}" for name, reason in islice(unread.items(), NAMED)]
    if len(unread) > NAMED:
        lines.append(f"left out: {len(unread) - NAMED} more documents, listed on the card")
    return lines


def _known_table(card: Card) -> RenderableType:
    """Return the share of facts that the model knows, by question form, and the share kept."""
    table = Table(
        box=None, padding=(0, 2), title=f"Known to {card.models['author']}", title_justify="left"
    )
    table.add_column("asked")
    table.add_column("known")
    table.add_column("counts", style="dim")
    for each in card.filters:
        table.add_row(each.name, percent(each.passed), Text(each.rejects))
    line = f"{card.recipe}: {percent(card.kept_share)} cases; {card.failed} unscored"
    return Group(table, Text(), Text(one_line(line)))
