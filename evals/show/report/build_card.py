"""The card of a built benchmark as a table."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.build.card import Card, percent
from emend.evals.build.fresh import FRESH
from emend.memory.escape import one_line


def render_card(card: Card) -> RenderableType:
    """The counts of the card: what each filter dropped, what is kept, and what it cost."""
    if card.kind == FRESH:
        return _render_known(card)
    title = f"{card.kind}, recipe {card.recipe}"
    table = Table(box=None, padding=(0, 2), title=title, title_justify="left")
    for name, right in (("filter", False), ("reached", True), ("passed in the end", False), ("rejected", True)):
        table.add_column(name, justify="right" if right else "left")
    table.add_column("rejects", style="dim")
    for each in card.filters:
        table.add_row(each.name, str(each.reached), percent(each.passed), str(each.rejected), Text(each.rejects))
    lines = [f"kept {percent(card.kept_share)} items, {card.attempts} attempts, {card.failed} failed; {card.status}"]
    if card.dropped:
        lines.append("dropped: " + ", ".join(f"{count} {name}" for name, count in card.dropped.items()))
    per = card.cost_per_kept.get("calls", 0.0)
    lines.append(
        f"{card.cost.calls} calls, {card.cost.input_tokens:,} tokens in, {card.cost.output_tokens:,} out; "
        f"{per:.1f} calls for each kept item"
    )
    head = (table, Text()) if card.filters else (Text(title, style="table.title"),)
    return Group(*head, *(Text(one_line(line)) for line in lines))


def _render_known(card: Card) -> RenderableType:
    """The share of facts that the model knows, by each way of asking, and what was kept."""
    table = Table(box=None, padding=(0, 2), title=f"Known to {card.models['author']}", title_justify="left")
    table.add_column("asked")
    table.add_column("known")
    table.add_column("counts", style="dim")
    for each in card.filters:
        table.add_row(each.name, percent(each.passed), Text(each.rejects))
    line = f"{card.recipe}: {percent(card.kept_share)} cases; {card.failed} could not be scored"
    return Group(table, Text(), Text(one_line(line)))
