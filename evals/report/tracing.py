"""A trace for eyes: edit, then per probe what each node did, in the order in which it happened."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from emend.editors.base import EditCost
from emend.evals.case import Record
from emend.evals.log.events import retries_of
from emend.evals.report.escape import one_line, safe
from emend.evals.trace.case_trace import Trace, TracedProbe, new_hits, states_before
from emend.evals.trace.graph_paths import START, GraphEdges
from emend.evals.trace.judged_steps import JudgedItem

SAID_ELSEWHERE = {"prompt", "reply", "log_probs", "target_tokens", "usage", "cut_tokens", "hits", "targets"}
LONG = 300
NAME = 60
"""Characters of a target that identify it."""
HANGING = 2
"""Indent of the continuation of a wrapped line."""
NARROWEST = 20
SOON = 0.01
"""Seconds of editing below which the cost is not shown."""


class TraceLine(NamedTuple):
    """A line and how far it is set in; a blank one is empty."""

    text: Text
    indent: int = 0


def show_trace(trace: Trace, console: Console) -> None:
    """Print the trace; in a terminal between words, into a pipe with no line broken."""
    for line in lines_of(trace):
        print_line(line, console)


def print_line(line: TraceLine, console: Console) -> None:
    """Print a line, its parts under each other where it has several or is too long."""
    parts = list(line.text.split("\n", allow_blank=True))
    if not console.soft_wrap:
        width = max(NARROWEST, console.width - line.indent - HANGING)
        parts = [piece for part in parts for piece in part.wrap(console, width, overflow="fold") or [Text()]]
    for place, part in enumerate(parts):
        margin = line.indent + (HANGING if place else 0)
        part.rstrip()
        console.print(Text(" " * margin) + part if part.plain else Text(), soft_wrap=True)


def lines_of(trace: Trace) -> Iterator[TraceLine]:
    """The trace, heading by heading."""
    yield TraceLine(Text(f"case {trace.number} ({one_line(trace.case)}), {one_line(trace.setting)}", style="bold"))
    for edit in trace.edits:
        yield field("edit", edit["text"], f"{edit['form']} {edit['id']}", indent=2)
    for probe in trace.probes:
        yield TraceLine(Text())
        yield from _probe_lines(probe, trace.ways.get(probe.record.editor))
    for failure in trace.failures:
        yield TraceLine(Text())
        yield TraceLine(Text(f"{one_line(failure['editor'])} failed", style="bold red"))
        aside = f"probe {failure['probe']}" if failure["probe"] else ""
        yield field("error", f"{failure['error']}: {failure['message']}", aside, indent=2)
        yield from steps_lines(failure["steps"])
    if not trace.probes and not trace.failures:
        yield TraceLine(Text("nothing failed, was retried or is unscored", style="dim"), 2)


def _probe_lines(probe: TracedProbe, ways: GraphEdges | None) -> Iterator[TraceLine]:
    record = probe.record
    yield TraceLine(Text(heading(record), style="bold"))
    yield field("asked", record.prompt, indent=2)
    yield field("right", right(record), indent=2)
    yield from steps_lines(probe.visible_steps, ways, probe.steps)
    left = len(probe.steps) - len(probe.visible_steps)
    if left:
        yield TraceLine(Text(f"{left} other steps are not shown", style="dim"), 2)
    if record.answer is not None:
        yield field("answer", record.answer, indent=2)
    if record.log_probs:
        yield field("log-probs", log_probs(record), indent=2)
    yield TraceLine(_scored(record), 2)
    yield field("cost", cost(record), indent=2)
    for item in probe.judged:
        yield from _judged_lines(item)


def heading(record: Record) -> str:
    """Heading of a probe: editor, kind, setting and repeat."""
    repeat = f" · repeat {record.repeat}" if record.repeat else ""
    again = f" · asked again after {record.checkpoint} edits" if record.checkpoint else ""
    return one_line(f"{record.editor} · {record.kind} · probe {record.probe}{repeat}{again}")


def right(record: Record) -> str:
    """The gold answers, and what they compete with."""
    return " | ".join(record.gold) + ("" if record.rival is None else f", against {record.rival}")


def _judged_lines(item: JudgedItem) -> Iterator[TraceLine]:
    yield TraceLine(Text(judged_heading(item), style="bold"), 2)
    for line in steps_lines(item.steps):
        yield TraceLine(line.text, line.indent + 2)
    verdict_text = item.judgement
    verdict = Text("verdict", style="dim")
    for name, value in verdict_text.values.items():
        verdict.append(f"  {one_line(name)} ").append(f"{value:.3g}", style="bold")
    if verdict_text.problem:
        verdict.append(f"  none: {one_line(verdict_text.problem)}", style="yellow")
    yield TraceLine(verdict, 4)
    if verdict_text.reason:
        yield field("reason", verdict_text.reason)


def judged_heading(item: JudgedItem) -> str:
    """Heading of a judgement: judge, repeat, order and cost."""
    verdict_text = item.judgement
    parts = [f"judged · {verdict_text.kind} · {verdict_text.judge}"]
    parts += [f"repeat {verdict_text.repeat}"] if verdict_text.repeat else []
    parts += ["other order"] if verdict_text.swapped else []
    parts += [f"one call for {item.together} items"] if item.together > 1 else []
    return one_line(" · ".join(parts))


def steps_lines(
    steps: Sequence[dict[str, Any]], ways: GraphEdges | None = None, whole: Sequence[dict[str, Any]] = ()
) -> Iterator[TraceLine]:
    """A probe asked for a text and for probabilities goes through the graph twice; what repeats is said once.

    `whole` has the steps that are not shown as well, which is where a state that grows has come from.
    """
    verdict_text: dict[str, list[Any]] = {}
    last: dict[str, Any] = {}
    for step, state in states_before(whole or steps, steps):
        before = verdict_text.setdefault(step["node"], [])
        same = step["update"] in before
        before.append(step["update"])
        title = Text(step_title(step), style="cyan")
        chose = " · chosen by a router" if _chosen(step, last, ways) else ""
        title.append(f"  {step_cost(step)}{chose}" + (", as above" if same else ""), style="dim not cyan")
        yield TraceLine(title, 2)
        yield from _calls_lines(step, same)
        if not same:
            yield from update_lines(step["update"] or {}, state)
        if step["error"]:
            yield TraceLine(Text(one_line(step["error"]), style="red"), 4)
        last = step


def _chosen(step: dict[str, Any], last: dict[str, Any], ways: GraphEdges | None) -> bool:
    """Return True if a router led from the previous step, or from the start, to this step."""
    if ways is None or not step["place"]:
        return False
    follows = bool(last) and last["place"] in step["after"]
    return ways.chooses(last["node"] if follows else START) if follows or step["place"] == 1 else False


def step_title(step: dict[str, Any]) -> str:
    """The node, with its number in the walk."""
    return one_line(f"{step['place']} {step['node']}" if step["place"] else step["node"])


def step_cost(step: dict[str, Any]) -> str:
    """Time, and what its calls to models took."""
    calls = step["calls"]
    phrase = [f"{step['ms']:,.1f} ms"]
    if calls:
        spent = [sum(call[name] for call in calls) for name in ("input_tokens", "output_tokens")]
        models = ", ".join(dict.fromkeys(one_line(call["model"]) for call in calls if call["model"])) or "model"
        phrase.append(f"{models}{f', {len(calls)} calls' if len(calls) > 1 else ''}: {spent[0]} in, {spent[1]} out")
    again = len(retries_of(step))
    return " · ".join([*phrase, *([f"{again} retries" if again > 1 else "1 retry"] if again else [])])


def _calls_lines(step: dict[str, Any], brief: bool = False) -> Iterator[TraceLine]:
    """Lines of a step's model calls that are shown nowhere else, and of each failed attempt."""
    for call in step["calls"]:
        if not (call["messages_field"] or brief):
            for message in call["messages"]:
                yield field(f"to model, {message['role']}", content_of(message))
        for again in call["retries"]:
            yield TraceLine(Text(retry_told(again), style="yellow"), 4)
        if call["reply"] and not (call["reply_field"] or brief):
            yield field("model said", content_of(call["reply"]), call["finish"])
        if call["error"] and call["error"] != step["error"]:
            yield TraceLine(Text(one_line(call["error"]), style="red"), 4)


def retry_told(again: dict[str, Any]) -> str:
    """An attempt that failed, in words."""
    status = f" (HTTP {again['status']})" if again["status"] else ""
    return f"attempt {again['attempt']} failed: {again['error']}{status}; waited {again['wait']:.2f} s"


def content_of(message: dict[str, Any]) -> str:
    """Text of a message, with its tool calls."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls", ())]
    return "\n".join([*([text] if text else []), *calls])


def update_lines(update: dict[str, Any], before: dict[str, Any]) -> Iterator[TraceLine]:
    """Lines of a node's update: retrieved entries with scores, the exact prompt, the reply, and all other fields.

    Of a text or list that only grew, the new part is shown, and nothing of a value that stayed the same.
    """
    if "hits" in update:
        fresh = new_hits(update["hits"], before.get("hits", ()))
        for place, hit in enumerate(fresh, 1):
            aside = f"score {hit.get('score', math.nan):.4f} {hit.get('edit_id', '')}"
            yield field(f"hit {place}", str(hit.get("text", "")), aside)
        if not fresh:
            yield field("hits", no_hits(update["hits"]))
    for name in ("prompt", "reply"):
        if name in update:
            yield field(name, str(update[name]))
    if update.get("log_probs"):
        yield field("log-probs", ", ".join(f"{value:.3f}" for value in update["log_probs"]))
    for name, value in update.items():
        nothing = value in ("", [], False, None) and name not in before
        if name not in SAID_ELSEWHERE and value != before.get(name) and not nothing:
            grown, new = grown_by(value, before.get(name))
            text = new if isinstance(new, str) else json.dumps(new, ensure_ascii=False)
            shortened = text if len(text) <= LONG else text[:LONG] + " ..."
            yield field(one_line(name) + (" +" if grown else ""), shortened)


def no_hits(hits: Sequence[Any]) -> str:
    """Note for a step without new hits, which names earlier hits if there are any."""
    return "as before" if hits else "none"


def grown_by(value: Any, before: Any) -> tuple[bool, Any]:
    """Return whether a text or list only grew or changed at its end, with the new part; else with all of it."""
    if isinstance(value, str) and isinstance(before, str) and before and value.startswith(before) and value != before:
        return True, value[len(before) :].strip("\n")
    if isinstance(value, list) and isinstance(before, list) and before and len(value) >= len(before):
        common = next((n for n, (old, new) in enumerate(zip(before, value, strict=False)) if old != new), len(before))
        return common > 0, value[common:] if common else value
    return False, value


def log_probs(record: Record) -> str:
    """Each target with its log-probability: gold and rival, or all gold answers and then their rivals."""
    names = [*record.gold, *(f"choice {place}" for place in range(1, len(record.log_probs) - len(record.gold) + 1))]
    if record.rival is not None and len(record.log_probs) == 2:
        names = [record.gold[0], record.rival]
    pairs = zip(names, record.log_probs, strict=False)
    return ", ".join(f"{one_line(name, NAME)} {value:.3f}" for name, value in pairs)


def cost(record: Record) -> str:
    """Tokens, calls and time; and what putting the edits there took, where that is worth telling."""
    usage = record.usage
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    again = f", {usage.retries} retries" if usage.retries else ""
    phrase = f"{tokens}, {usage.calls} calls{again}, {record.seconds * 1000:.1f} ms"
    phrase += f", {record.cut_tokens} tokens of the prompt cut" if record.cut_tokens else ""
    return phrase + edit_cost(record.edit_cost)


def edit_cost(phrase: EditCost) -> str:
    """Seconds and tokens of the edits that were applied together; empty when the cost is negligible."""
    if phrase.seconds < SOON:
        return ""
    what = f"its {phrase.edits} edits together" if phrase.edits > 1 else "its edit"
    tokens = f", {phrase.tokens:,} tokens through the model" if phrase.tokens else ""
    return f"; {what} {phrase.seconds:.2f} s{tokens}"


def _scored(record: Record) -> Text:
    line = Text("scored", style="dim")
    for name, value in record.values.items():
        line.append(f"  {one_line(name)} ").append(f"{value:.3g}", style="bold")
    for name, reason in record.unscored.items():
        line.append(f"  {one_line(name)} unscored: {one_line(reason)}", style="yellow")
    return line


def field(name: str, text: str, aside: str = "", indent: int = 4) -> TraceLine:
    """A dim name and the text; one of several lines stands below its name, so that it can be read as it was sent."""
    shortened = safe(text)
    line = Text(name, style="dim")
    if aside:
        line.append("  " + one_line(aside), style="dim")
    return TraceLine(line.append("\n" + shortened if "\n" in shortened else "  " + shortened), indent)
