"""Tables of `emend train`: accuracy of a scope classifier, retrieval with an encoder before and after training."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from emend.evals.measure.train_encoder import EncoderRow
from emend.evals.measure.train_scope import ScopeRow
from emend.evals.show.report.tables.layout import frame, titled
from emend.memory.escape import one_line

SPLITS = {"train": "trained on", "check": "checked on"}


def show_scope(rows: Sequence[ScopeRow], out: Path, console: Console) -> None:
    """Print the accuracy on each kind of question, and how to use the classifier."""
    table = frame("questions", "scope", "n", "edits", "accuracy", "", names=2)
    for row in rows:
        figures = _percent(row.accuracy, row.low, row.high)
        table.add_row(SPLITS[row.split], row.scope, str(row.n), str(row.texts), *figures)
    console.print(titled("accuracy, in percent [95 % interval]", table))
    console.print(Text("Questions trained on are decided by weights that were trained without them.", style="dim"))
    console.print(Text(f"\nThe classifier is in {one_line(str(out))}. Next:"))
    console.print(Text(f"  emend run ... --editor serac --set serac.scope={one_line(str(out))}"), soft_wrap=True)


def show_encoder(rows: Sequence[EncoderRow], embedding: str, out: Path, console: Console) -> None:
    """Print hit@1 before and after training, and how to use the adapter."""
    table = frame("questions", "encoder", "n", "edits", "hit@1", "", names=2)
    for row in sorted(rows, key=lambda row: (row.split == "check", row.encoder == "after")):
        table.add_row(SPLITS[row.split], row.encoder, str(row.n), str(row.texts), *_percent(row.hit, row.low, row.high))
    console.print(titled("hit@1, in percent [95 % interval]", table))
    if any(row.split == "train" for row in rows):
        console.print(Text("After training, judge by other questions than those trained on.", style="dim"))
    spec = "minilm" if embedding == "auto" else embedding
    console.print(Text(f"\nThe adapter is in {one_line(str(out))}. Next:"))
    console.print(Text(f"  emend retrieval ... --embedding {one_line(f'{spec}+{out}')}"), soft_wrap=True)


def _percent(mean: float | None, low: float | None, high: float | None) -> tuple[str, Text]:
    interval = "" if low is None or high is None else f"[{100 * low:.0f}, {100 * high:.0f}]"
    return "-" if mean is None else f"{100 * mean:.1f}", Text(interval)
