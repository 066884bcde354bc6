"""Lines of a trace, for terminals and as Markdown."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from emend.memory.escape import one_line, safe

# Minimum number of repeated lines at the start of a prompt that are replaced by a reference.
FOLDED_LINES = 4
# Minimum number of repeated messages at the start of a prompt that are replaced by a reference.
FOLDED_MESSAGES = 2
# Indent of the continuation of a wrapped line.
HANGING_INDENT = 2
MIN_WIDTH = 20
_MARKS = re.compile(r"([\\`*_\[\]<>|#~!])")
_TICKS = re.compile(r"`{3,}")


class TraceLine(NamedTuple):
    """A line for a terminal with its indent, and the same line as Markdown."""

    text: Text
    indent: int = 0
    markdown: str = ""


class EarlierTexts:
    """Texts already shown by the steps of a trace, whose beginnings a terminal does not repeat."""

    def __init__(self) -> None:
        self._lines, self._prompts = _Beginnings(), _Beginnings()
        self.probe = ""
        """Name of the probe whose steps are currently shown."""

    def fold(
        self, field: Callable[[str, str], TraceLine], name: str, text: str, step: str
    ) -> TraceLine:
        """Return the line of a text.

        On a terminal, lines at its start that an earlier step has shown are replaced by a reference
        to that step. In Markdown the text is complete.

        Args:
            field: function of name and text that makes the line.
            name: name of the text.
            text: text to show.
            step: title of the step that shows the text.
        """
        lines = text.split("\n")
        whole = field(name, text)
        count, where = self._find(lines, self._lines, step)
        if count < FOLDED_LINES:
            return whole
        rest = "\n".join(lines[count:])
        folded = field(name, f"({count} lines as in step {where})\n{rest}".rstrip("\n"))
        return whole._replace(text=folded.text)

    def fold_messages(
        self,
        field: Callable[[str, str], TraceLine],
        name: str,
        messages: Sequence[tuple[str, str]],
        step: str,
    ) -> Iterator[TraceLine]:
        """Yield the lines of a prompt in messages.

        On a terminal, messages at its start that an earlier prompt has are one line.

        Args:
            field: function of name and text that makes the line.
            name: name of the prompt.
            messages: role and text of each message.
            step: title of the step that shows the prompt.
        """
        count, where = self._find(list(messages), self._prompts, step)
        if count < FOLDED_MESSAGES:
            count = 0
        if count:
            lines = [field(f"{name}, {role}", text) for role, text in messages[:count]]
            folded = field(name, f"({count} messages as in step {where})")
            yield folded._replace(markdown="\n\n".join(line.markdown for line in lines))
        for role, text in messages[count:]:
            yield self.fold(field, f"{name}, {role}", text, step)

    def _find(self, items: Sequence[Any], earlier: "_Beginnings", step: str) -> tuple[int, str]:
        """Return the number of items at the start that an earlier list has, and its step; the list
        is added to the earlier ones.
        """
        here = f" of probe {self.probe}" if self.probe else ""
        count, where = earlier.add(items, f"{step}{here}")
        return count, where.removesuffix(here)


class _Beginnings:
    """All beginnings of lists, so that finding one takes no longer the more lists there are."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Any], int] = {}
        """Number of each beginning, by the number of the one without its last item."""
        self._names: dict[int, str] = {}
        """Name of the last list with the beginning of that number."""

    def add(self, items: Sequence[Any], name: str) -> tuple[int, str]:
        """Add a list; return the number of items at its start that an earlier list has, and the
        name of the last such list.
        """
        count, where, number = 0, "", 0
        for length, item in enumerate(items, 1):
            number = self._numbers.setdefault((number, item), len(self._numbers) + 1)
            if number in self._names:
                count, where = length, self._names[number]
            self._names[number] = name
        return count, where


def wrapped(line: TraceLine, console: Console) -> Iterator[Text]:
    """Yield a line, split at line breaks and wrapped to the width of the console."""
    pieces = list(line.text.split("\n", allow_blank=True))
    if not console.soft_wrap:
        width = max(MIN_WIDTH, console.width - line.indent - HANGING_INDENT)
        folded = (piece.wrap(console, width, overflow="fold") or [Text()] for piece in pieces)
        pieces = list(chain.from_iterable(folded))
    for number, piece in enumerate(pieces):
        margin = line.indent + HANGING_INDENT * (number > 0)
        piece.rstrip()
        # empty lines have no margin, or piped output would have trailing blanks
        if piece.plain:
            yield Text(" " * margin) + piece
        else:
            yield Text()


def heading(text: str, level: int, indent: int = 0, style: str = "bold") -> TraceLine:
    """Return a heading of the given level."""
    return TraceLine(
        Text(one_line(text), style=style), indent, f"{'#' * level} {plain_markdown(text)}"
    )


def note(text: str, style: str, indent: int = 4) -> TraceLine:
    """Return a remark in the given style; in Markdown it is a list item."""
    return TraceLine(Text(one_line(text), style=style), indent, f"- {plain_markdown(text)}")


def values_line(
    name: str, values: dict[str, float], missing: Sequence[str], indent: int = 2
) -> TraceLine:
    """Return a line of named values and the reasons why others are missing."""
    line = Text(name, style="dim")
    for metric, value in values.items():
        line.append(f"  {one_line(metric)} ").append(f"{value:.3g}", style="bold")
    for text in missing:
        line.append(f"  {one_line(text)}", style="yellow")
    parts = [*(f"{metric} {value:.3g}" for metric, value in values.items()), *missing]
    return TraceLine(line, indent, f"- {name}: {plain_markdown(', '.join(parts) or 'nothing')}")


def item(name: str, text: str, aside: str = "", indent: int = 2) -> TraceLine:
    """Return a line with a name and a text; in Markdown it is a list item."""
    if aside:
        about = f"{name}, {' '.join(aside.split())}"
    else:
        about = name
    return field(name, text, aside, indent)._replace(
        markdown=f"- {plain_markdown(about)}: {plain_markdown(text)}"
    )


def field(name: str, text: str, aside: str = "", indent: int = 4) -> TraceLine:
    """Return a line with a dim name and a text.

    A text of several lines starts below its name, so that it is shown exactly as it was sent. In
    Markdown the text is in a code block, whose fence is longer than any fence in the text.
    """
    whole = safe(text)
    line = Text(name, style="dim")
    if aside:
        line.append("  " + one_line(aside), style="dim")
    if "\n" in whole:
        line.append("\n" + whole)
    else:
        line.append("  " + whole)
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(whole)), default=2))
    return TraceLine(line, indent, f"{plain_markdown(name)}:\n\n{fence}text\n{whole}\n{fence}")


def plain_markdown(text: str) -> str:
    """Escape a text for Markdown and join it to one line."""
    return _MARKS.sub(r"\\\1", one_line(text))
