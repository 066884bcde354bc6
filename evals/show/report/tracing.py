"""Traces for eyes: all of a run in tables, and one case step by step, in a terminal or as Markdown."""

import json
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.editors.base import EditCost
from emend.evals.case import Record
from emend.evals.log.lines import retries_of
from emend.evals.show.report.layout import Frame, frame
from emend.evals.show.trace.answers import AnswerRow, StepFilter
from emend.evals.show.trace.case_trace import JudgedItem, Trace, TracedProbe, new_hits, states_before
from emend.evals.show.trace.graph_paths import START, GraphEdges, mermaid, paths_of
from emend.evals.show.trace.overview import CaseRow, NodeRow, Overview
from emend.memory.escape import one_line, safe

SHORT = 16
"""Characters of a text that stands beside others."""


def is_conversation(state: dict[str, Any]) -> bool:
    """True if the state holds the messages to and from the model, which are shown as its field."""
    messages = state.get("messages")
    return isinstance(messages, list) and bool(messages) and all(isinstance(m, dict) and "data" in m for m in messages)


def entry_texts(entry: dict[str, Any]) -> tuple[str, str]:
    """Short values and texts of an entry of a list in the state: a message, a judged passage, a demonstration.

    A message in LangChain's form has its role and its content with tool calls; ids are left out.
    """
    if isinstance(data := entry.get("data"), dict) and "content" in data:
        tools = [
            f"{call.get('name')}({json.dumps(call.get('args'), ensure_ascii=False)})"
            for call in data.get("tool_calls") or ()
            if isinstance(call, dict)
        ]
        content = data["content"] if isinstance(data["content"], str) else json.dumps(data["content"])
        return str(entry.get("type", "")), "\n".join([*([content] if content else []), *tools])
    fields = {name: value for name, value in entry.items() if not name.endswith("_id")}
    long = {name: value for name, value in fields.items() if isinstance(value, str) and len(value) > SHORT}
    aside = {name: value for name, value in fields.items() if name not in long}
    texts = list(long.values()) if len(long) == 1 else [f"{name}: {value}" for name, value in long.items()]
    return "  ".join(f"{name} {brief(value)}" for name, value in aside.items()), "\n".join(texts)


def brief(value: Any) -> str:
    """A value in short: numbers with four digits, a flat mapping as names and values, anything else as JSON."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and all(isinstance(part, (str, int, float)) for part in value.values()):
        return "  ".join(f"{name} {brief(part)}" for name, part in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def grown_by(value: Any, before: Any) -> tuple[bool, Any]:
    """Return whether a text or list only grew or changed at its end, with the new part; else with all of it."""
    if isinstance(value, str) and isinstance(before, str) and before and value.startswith(before) and value != before:
        return True, value[len(before) :].strip("\n")
    if isinstance(value, list) and isinstance(before, list) and before and len(value) >= len(before):
        common = next((n for n, (old, new) in enumerate(zip(before, value, strict=False)) if old != new), len(before))
        return common > 0, value[common:] if common else value
    return False, value


SAID_ELSEWHERE = {"prompt", "reply", "log_probs", "usage", "cut_tokens", "hits", "targets"}
SAID_ELSEWHERE |= {"target_tokens", "greedy_tokens", "turns"}
NAME = 60
"""Characters of a target that identify it."""
HANGING = 2
"""Indent of the continuation of a wrapped line."""
NARROWEST = 20
SOON = 0.01
"""Seconds of editing below which the cost is not shown."""
NOTHING = "nothing failed, was retried or is unscored"
_MARKS = re.compile(r"([\\`*_\[\]<>|#~!])")
_TICKS = re.compile(r"`{3,}")


class TraceLine(NamedTuple):
    """A line for a terminal and how far it is set in, and the same as Markdown."""

    text: Text
    indent: int = 0
    markdown: str = ""


def show_trace(trace: Trace, console: Console) -> None:
    """Print the trace; in a terminal between words, into a pipe with no line broken."""
    console.print(trace_text(trace, console), soft_wrap=True)


def trace_text(trace: Trace, console: Console) -> Text:
    """The trace as one text, wrapped for the console."""
    return Text("\n").join(line for trace_line in _lines(trace) for line in _wrapped(trace_line, console))


def markdown(trace: Trace) -> str:
    """The trace for an issue or a page: prompts and replies in full, the way through each graph as Mermaid."""
    blocks = [line.markdown for line in _lines(trace) if line.markdown]
    gaps = ["\n" * (1 if before[:2] == after[:2] == "- " else 2) for before, after in pairwise(blocks)]
    return "".join(chain.from_iterable(zip(blocks, [*gaps, ""], strict=True)))


def _wrapped(line: TraceLine, console: Console) -> Iterator[Text]:
    """The line, its parts under each other where it has several or is too long."""
    parts = list(line.text.split("\n", allow_blank=True))
    if not console.soft_wrap:
        width = max(NARROWEST, console.width - line.indent - HANGING)
        parts = [piece for part in parts for piece in part.wrap(console, width, overflow="fold") or [Text()]]
    for place, part in enumerate(parts):
        margin = line.indent + (HANGING if place else 0)
        part.rstrip()
        yield Text(" " * margin) + part if part.plain else Text()


def _lines(trace: Trace) -> Iterator[TraceLine]:
    """The trace, heading by heading."""
    yield _heading(f"case {trace.number} ({trace.case}), {trace.setting}", 1)
    for edit in trace.edits:
        yield _item("edit", edit["text"], f"{edit['form']} {edit['id']}")
    for probe in trace.probes:
        yield TraceLine(Text())
        yield from _probe_lines(probe, trace.ways.get(probe.record.editor))
    for failure in trace.failures:
        yield TraceLine(Text())
        yield _heading(f"{failure['editor']} failed", 2, style="bold red")
        aside = f"probe {failure['probe']}" if failure["probe"] else ""
        yield _field("error", f"{failure['error']}: {failure['message']}", aside, indent=2)
        yield from steps_lines(failure["steps"])
    if not trace.probes and not trace.failures:
        yield _note(NOTHING, "dim", 2)


def _probe_lines(probe: TracedProbe, ways: GraphEdges | None) -> Iterator[TraceLine]:
    record = probe.record
    repeat = f" · repeat {record.repeat}" if record.repeat else ""
    again = f" · asked again after {record.checkpoint} edits" if record.checkpoint else ""
    yield _heading(f"{record.editor} · {record.kind} · probe {record.probe}{repeat}{again}", 2)
    yield _item("asked", record.prompt)
    yield _item("right", " | ".join(record.gold) + ("" if record.rival is None else f", against {record.rival}"))
    yield from steps_lines(probe.visible_steps, ways, probe.steps)
    left = len(probe.steps) - len(probe.visible_steps)
    if left:
        yield _note(f"{left} other steps are not shown", "dim", 2)
    if record.answer is not None:
        yield _item("answer", record.answer)
    if record.log_probs:
        yield _item("log-probs", log_probs(record))
    yield _values("scored", record.values, [f"{name} unscored: {reason}" for name, reason in record.unscored.items()])
    cost = _item("cost", probe_cost(record))
    if ways is not None and probe.steps:
        drawing = f"\n\n```mermaid\n{mermaid(ways, paths_of(ways, probe.steps))}\n```"
        cost = cost._replace(markdown=cost.markdown + drawing)
    yield cost
    for item in probe.judged:
        yield from _judged_lines(item)


def _judged_lines(item: JudgedItem) -> Iterator[TraceLine]:
    """Judge, repeat, order and cost of a judgement; its steps and verdict."""
    judgement = item.judgement
    parts = [f"judged · {judgement.kind} · {judgement.judge}"]
    parts += [f"repeat {judgement.repeat}"] if judgement.repeat else []
    parts += ["other order"] if judgement.swapped else []
    parts += [f"one call for {item.together} items"] if item.together > 1 else []
    yield _heading(" · ".join(parts), 3, indent=2)
    for line in steps_lines(item.steps):
        yield line._replace(indent=line.indent + 2)
    yield _values("verdict", judgement.values, [f"none: {judgement.problem}"] if judgement.problem else [], 4)
    if judgement.reason:
        yield _item("reason", judgement.reason, indent=4)


def steps_lines(
    steps: Sequence[dict[str, Any]], ways: GraphEdges | None = None, whole: Sequence[dict[str, Any]] = ()
) -> Iterator[TraceLine]:
    """A probe asked for a text and for probabilities goes through the graph twice; what repeats is said once.

    `whole` has the steps that are not shown as well, which is where a state that grows has come from.
    """
    updates: dict[str, list[Any]] = {}
    last: dict[str, Any] = {}
    for step, state in states_before(whole or steps, steps):
        before = updates.setdefault(step["node"], [])
        same = step["update"] in before
        before.append(step["update"])
        title = one_line(f"{step['place']} {step['node']}" if step["place"] else step["node"])
        chose = " · chosen by a router" if is_routed(step, last, ways) else ""
        about = f"{step_cost(step)}{chose}" + (", as above" if same else "")
        text = Text(title, style="cyan").append(f"  {about}", style="dim not cyan")
        yield TraceLine(text, 2, f"**{_plain(title)}** {_plain(about)}")
        yield from _calls_lines(step, same or is_conversation(step["update"] or {}))
        if not same:
            yield from _update_lines(step["update"] or {}, state)
        if step["error"]:
            yield _note(step["error"], "red")
        last = step


def is_routed(step: dict[str, Any], last: dict[str, Any], ways: GraphEdges | None) -> bool:
    """Return True if a router led from the previous step, or from the start, to this step."""
    if ways is None or not step["place"]:
        return False
    follows = bool(last) and last["place"] in step["after"]
    return ways.chooses(last["node"] if follows else START) if follows or step["place"] == 1 else False


def step_cost(step: dict[str, Any]) -> str:
    """Time, and what its calls to models took."""
    calls = step["calls"]
    phrase = [f"{step['ms'] or 0:,.1f} ms"]
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
                yield _field(f"to model, {message['role']}", content_of(message))
        for again in call["retries"]:
            status = f" (HTTP {again['status']})" if again["status"] else ""
            waited = f"waited {again['wait']:.2f} s"
            yield _note(f"attempt {again['attempt']} failed: {again['error']}{status}; {waited}", "yellow")
        if call["reply"] and not (call["reply_field"] or brief):
            yield _field("model said", content_of(call["reply"]), call["finish"])
        if call["error"] and call["error"] != step["error"]:
            yield _note(call["error"], "red")


def content_of(message: dict[str, Any]) -> str:
    """Text of a message, with its tool calls."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls", ())]
    return "\n".join([*([text] if text else []), *calls])


def _update_lines(update: dict[str, Any], before: dict[str, Any]) -> Iterator[TraceLine]:
    """Lines of a node's update: retrieved entries with scores, the exact prompt, the reply, and all other fields.

    Of a text or list that only grew, the new part is shown, and nothing of a value that stayed the same.
    """
    if "hits" in update:
        fresh = new_hits(update["hits"], before.get("hits", ()))
        for place, hit in enumerate(fresh, 1):
            aside = f"score {hit.get('score', math.nan):.4f} {hit.get('edit_id', '')}"
            yield _item(f"hit {place}", str(hit.get("text", "")), aside, indent=4)
        if not fresh:
            yield _item("hits", "as before" if update["hits"] else "none", indent=4)
    for name in ("prompt", "reply"):
        if name in update:
            known = name == "prompt" and is_conversation(before)
            yield _note("prompt: the messages above", "dim") if known else _field(name, str(update[name]))
    if update.get("log_probs"):
        yield _item("log-probs", ", ".join(f"{value:.3f}" for value in update["log_probs"]), indent=4)
    for name, value in update.items():
        nothing = value in ("", [], False, None) and name not in before
        if name not in SAID_ELSEWHERE and value != before.get(name) and not nothing:
            grown, new = grown_by(value, before.get(name))
            title = one_line(name) + (" +" if grown else "")
            if isinstance(new, list) and new and all(isinstance(entry, dict) for entry in new):
                first = len(value) - len(new) + 1
                for place, entry in enumerate(new, first):
                    aside, text = entry_texts(entry)
                    yield _item(f"{one_line(name)} {place}", text, aside, indent=4)
            else:
                yield _field(title, brief(new))


def log_probs(record: Record) -> str:
    """Each target with its log-probability: gold and rival, or all gold answers and then their rivals."""
    names = [*record.gold, *(f"choice {place}" for place in range(1, len(record.log_probs) - len(record.gold) + 1))]
    if record.rival is not None and len(record.log_probs) == 2:
        names = [record.gold[0], record.rival]
    pairs = zip(names, record.log_probs, strict=False)
    return ", ".join(f"{one_line(name, NAME)} {value:.3f}" for name, value in pairs)


def probe_cost(record: Record) -> str:
    """Tokens, calls and time; and what putting the edits there took, where that is worth telling."""
    usage = record.usage
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    again = f", {usage.retries} retries" if usage.retries else ""
    phrase = f"{tokens}, {usage.calls} calls{again}, {record.seconds * 1000:.1f} ms"
    phrase += f", {record.cut_tokens} tokens of the prompt cut" if record.cut_tokens else ""
    return phrase + edit_cost(record.edit_cost)


def edit_cost(cost: EditCost) -> str:
    """Seconds and tokens of the edits that were applied together; empty when the cost is negligible."""
    if cost.seconds < SOON:
        return ""
    what = f"its {cost.edits} edits together" if cost.edits > 1 else "its edit"
    tokens = f", {cost.tokens:,} tokens through the model" if cost.tokens else ""
    return f"; {what} {cost.seconds:.2f} s{tokens}"


def _heading(text: str, level: int, indent: int = 0, style: str = "bold") -> TraceLine:
    return TraceLine(Text(one_line(text), style=style), indent, f"{'#' * level} {_plain(text)}")


def _note(text: str, style: str, indent: int = 4) -> TraceLine:
    return TraceLine(Text(one_line(text), style=style), indent, f"- {_plain(text)}")


def _values(name: str, values: dict[str, float], missing: Sequence[str], indent: int = 2) -> TraceLine:
    """Numbers, and why others are missing."""
    line = Text(name, style="dim")
    for metric, value in values.items():
        line.append(f"  {one_line(metric)} ").append(f"{value:.3g}", style="bold")
    for text in missing:
        line.append(f"  {one_line(text)}", style="yellow")
    parts = [*(f"{metric} {value:.3g}" for metric, value in values.items()), *missing]
    return TraceLine(line, indent, f"- {name}: {_plain(', '.join(parts) or 'nothing')}")


def _item(name: str, text: str, aside: str = "", indent: int = 2) -> TraceLine:
    """A name and a text; an item of a list in Markdown."""
    about = f"{name}, {' '.join(aside.split())}" if aside else name
    return _field(name, text, aside, indent)._replace(markdown=f"- {_plain(about)}: {_plain(text)}")


def _field(name: str, text: str, aside: str = "", indent: int = 4) -> TraceLine:
    """A dim name and the text; one of several lines stands below its name, so that it can be read as it was sent.

    In Markdown the text is in a fence that is longer than any in it.
    """
    whole = safe(text)
    line = Text(name, style="dim")
    if aside:
        line.append("  " + one_line(aside), style="dim")
    line.append("\n" + whole if "\n" in whole else "  " + whole)
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(whole)), default=2))
    return TraceLine(line, indent, f"{_plain(name)}:\n\n{fence}text\n{whole}\n{fence}")


def _plain(text: str) -> str:
    """Escape a text for Markdown and join it to one line."""
    return _MARKS.sub(r"\\\1", one_line(text))


MAX_ROWS = 40
"""Largest number of answers listed; `--json` lists all."""
LONG = 300
"""Characters of a prompt or answer that are shown: the end of a prompt, where its question is."""


def show_answers(rows: Sequence[AnswerRow], folder: Path, console: Console) -> None:
    """Print the answers, and how to see one of them step by step."""
    if not rows:
        console.print(Text("no answer is such", style="dim"))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in ("case", "editor", "kind", "score"):
        table.add_column(name, no_wrap=True)
    for name in ("prompt", "answer", "right answer"):
        table.add_column(name, overflow="fold")
    for row in islice(rows, MAX_ROWS):
        style = {"right": "green", "wrong": "red"}.get(row.verdict, "yellow")
        prompt = row.prompt if len(row.prompt) <= LONG else f"…{row.prompt[-LONG:]}"
        names = (Text(one_line(text)) for text in (str(row.number), row.editor, row.kind))
        texts = (
            Text(one_line(text, LONG + 1))
            for text in (prompt, row.answer or "-", " / ".join(row.gold) or "(as before the edit)")
        )
        table.add_row(*names, Text(one_line(row.score, 40), style=style), *texts)
    console.print(table)
    _show_next(rows, folder, ["--probe", rows[0].probe], console)


def _show_next(
    rows: Sequence[AnswerRow] | Sequence[CaseRow], folder: Path, options: list[str], console: Console
) -> None:
    """Print how many rows are not listed, and the command that shows the first of all."""
    if len(rows) > MAX_ROWS:
        console.print(Text(f"and {len(rows) - MAX_ROWS:,} more: --json lists all", style="dim"))
    first, alone = rows[0], len({row.setting for row in rows}) == 1  # a number means a case of the first setting
    case = str(first.number) if alone and first.number else first.case
    command = ["emend", "trace", str(folder), case, "--editor", first.editor, *options]
    console.print(Text(f"One of them, step by step: {shlex.join(command)}", style="dim"), soft_wrap=True)


"""Largest number of cases listed; `--json` lists all."""
WIDE = 100
"""From this width on there is room for all columns."""
FINDING_LENGTH = 56
"""Characters of a failure shown beside its case in a terminal; elsewhere it is printed whole below the table."""


def show_overview(overview: Overview, folder: Path, filters: StepFilter, console: Console) -> None:
    """Print the tables, and how to see one of the cases."""
    if not overview.cases:
        console.print(Text("nothing failed, was retried or is unscored", style="dim"))
        return
    if overview.nodes:
        console.print(_nodes(overview.nodes, console.width >= WIDE))
    beside = console.is_terminal and console.width >= WIDE
    console.print(_cases(overview.cases, beside))
    if not beside:
        limit = max(20, console.width - 24) if console.is_terminal else 0
        for row in overview.cases[:MAX_ROWS]:
            if row.finding:
                console.print(Text(f"case {row.number}, {one_line(row.editor)}: {_found(row, limit)}"))
    _show_next(overview.cases, folder, _options(filters), console)


def _options(filters: StepFilter) -> list[str]:
    options = {"--node": filters.node, "--grep": filters.grep}
    arguments = [part for name, value in options.items() if value for part in (name, value)]
    return [*arguments, "--errors"] if filters.errors else arguments


def _nodes(rows: tuple[NodeRow, ...], wide: bool) -> Frame:
    heads = {"steps": "steps", "median_ms": "median ms"}
    heads |= {"p95_ms": "p95 ms", "calls": "calls"} if wide else {}
    heads |= {"input_tokens": "in", "output_tokens": "out", "retries": "retries", "errors": "errors"}
    names = [name for name in heads if any(getattr(row, name) for row in rows)]
    table = frame("editor", "node", *(heads[name] for name in names), names=2)
    for row in rows:
        table.add(row.editor, one_line(row.node), *(_number(getattr(row, name)) for name in names))
    return table


def _cases(rows: tuple[CaseRow, ...], beside: bool) -> Frame:
    counted = ("probes", "steps", "seconds", "retries", "errors", "unscored", "failed")
    names = [name for name in counted if any(getattr(row, name) for row in rows)]
    why = beside and any(row.finding for row in rows)
    table = frame("case", "editor", *("s" if name == "seconds" else name for name in names), names=2)
    if why:
        table.add_column(Text("what", style="bold"), no_wrap=True)
    last = ("", 0)
    for row in rows[:MAX_ROWS]:
        cells = [_number(getattr(row, name)) for name in names] + ([_found(row, FINDING_LENGTH)] if why else [])
        here = (row.setting, row.number)
        table.add_row(str(row.number) if here != last else "", one_line(row.editor), *map(Text, cells))
        last = here
    return table


def _number(value: float) -> str:
    if not value:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def _found(row: CaseRow, limit: int) -> str:
    return one_line(" ".join(row.finding.split()), limit)
