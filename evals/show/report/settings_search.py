"""The table of `emend tune`: the defaults and the settings that were searched, on facts that were not searched on."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from emend.evals.results.settings_search import Metrics, Trial, TuneReport
from emend.evals.show.report.tables.layout import frame, titled
from emend.memory.escape import one_line


def show_tuning(tuned: TuneReport, out: Path, console: Console) -> None:
    """Print both sides with intervals, the settings, and how to use them."""
    table = frame("metric", "defaults", "", "tuned", "", "n")
    for before, after in zip(tuned.default.metrics, tuned.tuned.metrics, strict=False):
        table.add_row(before.metric, *_estimate(before), *_estimate(after), str(after.n))
    table.add_row("perplexity, x unedited", *_ratio(tuned.default), *_ratio(tuned.tuned), "")
    table.add_row("score", _number(tuned.default.score), "", _number(tuned.tuned.score), "", str(tuned.tuned.facts))
    console.print(titled(f"{tuned.editor} on facts that were not searched on [95 % interval]", table))
    used = ", ".join(f"{name}={value}" for name, value in tuned.settings.items()) or "the defaults"
    console.print(Text(one_line(f"Best on the facts that were searched on: {used}")), soft_wrap=True)
    if problems := list(dict.fromkeys(trial.problem for trial in tuned.trials if trial.problem)):
        console.print(Text(one_line(f"Some settings cannot be used: {problems[0]}"), style="dim"), soft_wrap=True)
    console.print(Text(f"\nThe settings are in {one_line(str(out))}. Next:"))
    command = f"  emend run ... --editor {tuned.editor} --set {tuned.editor}=@{one_line(str(out))}"
    console.print(Text(command), soft_wrap=True)


def _estimate(metrics: Metrics) -> tuple[str, Text]:
    bounds = metrics.low, metrics.high
    interval = "" if None in bounds else f"[{_number(metrics.low)}, {_number(metrics.high)}]"
    return _number(metrics.mean), Text(interval)


def _ratio(trial: Trial) -> tuple[str, str]:
    return ("-" if trial.perplexity is None else f"{trial.perplexity:.3g}"), ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
