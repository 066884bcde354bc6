"""A trace for eyes: edit, then per probe what each node did, in the order in which it happened."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from emend.evals.case import Record
from emend.evals.report.safe import one_line, safe
from emend.evals.trace import Trace, TracedProbe

SAID_ELSEWHERE = {"prompt", "reply", "log_probs", "usage", "cut_tokens", "hits", "targets"}
LONG = 300


def show_trace(trace: Trace, console: Console) -> None:
    """Print the trace; no line of it is broken, so that a prompt can be copied as it was sent."""
    for line in lines_of(trace):
        console.print(line, soft_wrap=True)


def lines_of(trace: Trace) -> Iterator[Text]:
    """The trace, heading by heading."""
    yield Text(f"case {trace.number} ({one_line(trace.case)}), {one_line(trace.setting)}", style="bold")
    for edit in trace.edits:
        yield _field("edit", edit["text"], f"{edit['form']} {edit['id']}", indent=2)
    for probe in trace.probes:
        yield Text()
        yield from _probe_lines(probe)
    for failure in trace.failures:
        yield Text()
        yield Text(f"{one_line(failure['editor'])} failed", style="bold red")
        aside = f"probe {failure['probe']}" if failure["probe"] else ""
        yield _field("error", f"{failure['error']}: {failure['message']}", aside, indent=2)
        yield from _steps_lines(failure.get("steps", ()))


def _probe_lines(probe: TracedProbe) -> Iterator[Text]:
    record = probe.record
    repeat = f" · repeat {record.repeat}" if record.repeat else ""
    again = f" · again when {record.checkpoint} edits stood" if record.checkpoint else ""
    yield Text(one_line(f"{record.editor} · {record.kind} · probe {record.probe}{repeat}{again}"), style="bold")
    yield _field("asked", record.prompt, indent=2)
    against = "" if record.rival is None else f", against {record.rival}"
    yield _field("right", " | ".join(record.gold) + against, indent=2)
    yield from _steps_lines(probe.steps)
    if record.answer is not None:
        yield _field("answer", record.answer, indent=2)
    if record.log_probs:
        yield _field("log-probs", log_probs(record), indent=2)
    yield _scored(record)
    yield _field("cost", cost(record), indent=2)


def _steps_lines(steps: Sequence[dict[str, Any]]) -> Iterator[Text]:
    """A probe asked for a text and for probabilities goes through the graph twice; what repeats is said once."""
    before: dict[str, Any] = {}
    for step in steps:
        same = step["update"] == before.get(step["node"])
        before[step["node"]] = step["update"]
        aside = f"  {step['ms']:.1f} ms" + (", as above" if same else "")
        yield Text(f"  {one_line(step['node'])}", style="cyan").append(aside, style="dim not cyan")
        if not same:
            yield from step_lines(step["update"] or {})
        if step["error"]:
            yield Text("    " + one_line(step["error"]), style="red")


def step_lines(update: dict[str, Any]) -> Iterator[Text]:
    """What a node changed: retrieved entries with scores, the exact prompt, the reply, and whatever else it set."""
    for place, hit in enumerate(update.get("hits", ()), 1):
        yield _field(
            f"hit {place}", str(hit.get("text", "")), f"score {hit.get('score', math.nan):.4f} {hit.get('edit_id', '')}"
        )
    if "hits" in update and not update["hits"]:
        yield _field("hits", "none")
    for name in ("prompt", "reply"):
        if name in update:
            yield _field(name, str(update[name]))
    if update.get("log_probs"):
        yield _field("log-probs", ", ".join(f"{value:.3f}" for value in update["log_probs"]))
    for name, value in update.items():
        if name not in SAID_ELSEWHERE:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield _field(one_line(name), text if len(text) <= LONG else text[:LONG] + " ...")


def log_probs(record: Record) -> str:
    """Each target with its log-probability."""
    names = (record.gold[0], record.rival or "")
    pairs = [f"{name} {value:.3f}" for name, value in zip(names, record.log_probs, strict=False)]
    return ", ".join(pairs)


def cost(record: Record) -> str:
    """Tokens, calls and time."""
    usage = record.usage
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    told = f"{tokens}, {usage.calls} calls, {record.seconds * 1000:.1f} ms"
    return told + (f", {record.cut_tokens} tokens of the prompt cut" if record.cut_tokens else "")


def _scored(record: Record) -> Text:
    line = Text("  ").append("scored", style="dim")
    for name, value in record.values.items():
        line.append(f"  {one_line(name)} ").append(f"{value:.3g}", style="bold")
    for name, reason in record.unscored.items():
        line.append(f"  {one_line(name)} unscored: {one_line(reason)}", style="yellow")
    return line


def _field(name: str, text: str, aside: str = "", indent: int = 4) -> Text:
    """A dim name and the text; one of several lines stands below its name, so that it can be read as it was sent."""
    shown = safe(text)
    line = Text(" " * indent).append(name, style="dim")
    if aside:
        line.append("  " + one_line(aside), style="dim")
    below = "\n" + " " * (indent + 2)
    return line.append(below + shown.replace("\n", below) if "\n" in shown else "  " + shown)
