"""The cut of what a memory recalls to a number of tokens, by one rule for all systems."""

from collections.abc import Mapping, Sequence

from emend.evals.metrics.stream_answers import count_tokens
from emend.evals.stream.system import ContextItem


def as_line(item: ContextItem) -> str:
    """An item as a line of the prompt, with its date."""
    text = " ".join(item.text.split())
    return f"[{item.date}] {text}" if item.date else text


def cut_to_budget(items: Sequence[ContextItem], budget: int | None) -> list[ContextItem]:
    """The first items in the system's order that fit together, each whole; the first that does not fit ends them.

    Args:
        items: best first.
        budget: maximum number of tokens by `count_tokens`, dates included; None for no limit.
    """
    chosen: list[ContextItem] = []
    left = budget
    for item in items:
        if left is not None:
            left -= count_tokens(as_line(item))
            if left < 0:
                break
        chosen.append(item)
    return chosen


def in_order(items: Sequence[ContextItem], places: Mapping[str, int]) -> list[ContextItem]:
    """The items as the model reads them: by date, then in the order of the stream; without a date, last.

    Args:
        items: in any order.
        places: by turn, its number in the stream.
    """
    return sorted(items, key=lambda item: (not item.date, item.date, places.get(item.turn, 0)))
