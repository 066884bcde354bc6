"""Text of a case's trace: questions, retrieved entries, prompts, replies, scores, judgements."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, starmap
from typing import Any

from rich.console import Console
from rich.text import Text

from emend.evals.metrics.reading_line import reading_lines
from emend.evals.show.report.traces.corrections import correction_text
from emend.evals.show.report.traces.lines import (
    EarlierTexts,
    TraceLine,
    field,
    heading,
    item,
    note,
    plain_markdown,
    values_line,
    wrapped,
)
from emend.evals.show.report.traces.values import (
    brief,
    content_of,
    entry_texts,
    grown_by,
    is_conversation,
    log_probs,
    probe_cost,
    step_cost,
)
from emend.evals.show.trace.case_trace import (
    JudgedItem,
    Trace,
    TracedProbe,
    new_hits,
    states_before,
)
from emend.evals.show.trace.graph_paths import START, GraphEdges, mermaid, paths_of
from emend.memory.escape import one_line

SHOWN_SEPARATELY = frozenset(
    (
        "prompt reply log_probs usage cut_tokens hits targets target_tokens greedy_tokens "
        "likely_tokens turns"
    ).split()
)
# Lines that are printed together: the time for printing a text grows faster than its length.
PRINTED_TOGETHER = 200
NOTHING = "no step failed, was retried or is unscored"


def show_trace(trace: Trace, console: Console) -> None:
    """Print a trace; lines are wrapped on a terminal, not in a pipe."""
    lines = _trace_lines(trace)
    while some := list(islice(lines, PRINTED_TOGETHER)):
        console.print(_joined(some, console), soft_wrap=True)


def trace_text(trace: Trace, console: Console) -> Text:
    """Return a trace as one text, wrapped for the console."""
    return _joined(_trace_lines(trace), console)


def _joined(lines: Iterable[TraceLine], console: Console) -> Text:
    return Text("\n").join(chain.from_iterable(wrapped(line, console) for line in lines))


def markdown(trace: Trace) -> str:
    """Return a trace as Markdown, with full prompts and replies, and graph paths as Mermaid."""
    blocks = [line.markdown for line in _trace_lines(trace) if line.markdown]
    gaps = list(starmap(_gap, pairwise(blocks)))
    return "".join(chain.from_iterable(zip(blocks, [*gaps, ""], strict=True)))


def _gap(before: str, after: str) -> str:
    """Return the line breaks between two Markdown blocks: one between list items, else two."""
    if before[:2] == after[:2] == "- ":
        return "\n"
    return "\n\n"


def _trace_lines(trace: Trace) -> Iterator[TraceLine]:
    """Yield the lines of a trace."""
    yield heading(f"case {trace.number} ({trace.case}), {trace.setting}", 1)
    for edit in trace.edits:
        yield item("edit", edit["text"], f"{edit['form']} {edit['id']}")
    texts = EarlierTexts()
    for probe in trace.probes:
        texts.probe = one_line(probe.record.probe)
        yield TraceLine(Text())
        yield from _probe_lines(probe, trace.ways.get(probe.record.editor), texts)
    for failure in trace.failures:
        yield TraceLine(Text())
        yield heading(f"{failure['editor']} failed", 2, style="bold red")
        aside = ""
        if failure["probe"]:
            aside = f"probe {failure['probe']}"
        yield field("error", f"{failure['error']}: {failure['message']}", aside, indent=2)
        yield from steps_lines(failure["steps"])
    if not trace.probes and not trace.failures:
        yield note(NOTHING, "dim", 2)


def _probe_lines(
    probe: TracedProbe, ways: GraphEdges | None, texts: EarlierTexts
) -> Iterator[TraceLine]:
    record = probe.record
    repeat = ""
    if record.repeat:
        repeat = f" · repeat {record.repeat}"
    again = ""
    if record.checkpoint:
        again = f" · evaluated again after {record.checkpoint} edits"
    yield heading(f"{record.editor} · {record.kind} · probe {record.probe}{repeat}{again}", 2)
    yield item("asked", record.prompt)
    right = " | ".join(record.gold)
    if record.rival is not None:
        right += f", against {record.rival}"
    yield item("right", right)
    yield from steps_lines(probe.visible_steps, ways, probe.steps, texts)
    left = len(probe.steps) - len(probe.visible_steps)
    if left:
        yield note(f"{left} other steps not shown", "dim", 2)
    if record.answer is not None:
        yield item("answer", record.answer)
    if record.log_probs:
        yield item("log-probs", log_probs(record))
    yield values_line(
        "scored",
        record.values,
        [f"{name} unscored: {reason}" for name, reason in record.unscored.items()],
    )
    for line in reading_lines(record):
        yield item("read", f"{line.score}: {line.text()}")
    for correction in probe.corrections:
        yield item("corrected", correction_text(correction))
    cost = item("cost", probe_cost(record))
    if ways is not None and probe.steps:
        drawing = f"\n\n```mermaid\n{mermaid(ways, paths_of(ways, probe.steps))}\n```"
        cost = cost._replace(markdown=cost.markdown + drawing)
    yield cost
    for judged in probe.judged:
        yield from _judged_lines(judged)


def _judged_lines(judged: JudgedItem) -> Iterator[TraceLine]:
    """Yield the lines of a judgement: judge, repeat, order, steps, verdict and reason."""
    judgement = judged.judgement
    parts = [f"judged · {judgement.kind} · {judgement.judge}"]
    if judgement.repeat:
        parts += [f"repeat {judgement.repeat}"]
    if judgement.swapped:
        parts += ["other order"]
    if judged.together > 1:
        parts += [f"one call for {judged.together} items"]
    yield heading(" · ".join(parts), 3, indent=2)
    for line in steps_lines(judged.steps):
        yield line._replace(indent=line.indent + 2)
    remarks = []
    if judgement.problem:
        remarks = [f"none: {judgement.problem}"]
    if judgement.dispute:
        remarks += [f"disputed: {judgement.dispute}"]
    yield values_line("verdict", judgement.values, remarks, 4)
    if judgement.quote:
        yield item("quoted", judgement.quote, indent=4)
    if judgement.reason:
        yield item("reason", judgement.reason, indent=4)


def steps_lines(
    steps: Sequence[dict[str, Any]],
    ways: GraphEdges | None = None,
    whole: Sequence[dict[str, Any]] = (),
    texts: EarlierTexts | None = None,
) -> Iterator[TraceLine]:
    """Yield the lines of steps.

    Repeated content is shown once: a probe that is asked for a text and for probabilities runs
    through the graph twice.

    Args:
        steps: steps to show.
        ways: the editor's graph.
        whole: all steps, including those that are not shown; the state before a step is computed
            from them.
        texts: texts that have been shown before.
    """
    updates: dict[str, set[str]] = {}
    if texts is None:
        texts = EarlierTexts()
    last: dict[str, Any] = {}
    for step, state in states_before(whole or steps, steps):
        before = updates.setdefault(step["node"], set())
        update = json.dumps(step["update"], sort_keys=True)
        same = update in before
        before.add(update)
        title = one_line(f"{step['place'] or ''} {step['node']}").strip()
        chose = ""
        if is_routed(step, last, ways):
            chose = " · chosen by a router"
        about = f"{step_cost(step)}{chose}"
        if same:
            about += ", as above"
        text = Text(title, style="cyan").append(f"  {about}", style="dim not cyan")
        yield TraceLine(text, 2, f"**{plain_markdown(title)}** {plain_markdown(about)}")
        yield from _calls_lines(step, texts, title, same or is_conversation(step["update"] or {}))
        if not same:
            yield from _update_lines(step["update"] or {}, state, texts, title)
        if step["error"]:
            yield note(step["error"], "red")
        last = step


def roles_of(messages: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the role and the text of each message."""
    return [(str(message["role"]), content_of(message)) for message in messages]


def is_routed(step: dict[str, Any], last: dict[str, Any], ways: GraphEdges | None) -> bool:
    """Return True if a router led from the previous step, or from the start, to this step."""
    if ways is None or not step["place"]:
        return False
    follows = bool(last) and last["place"] in step["after"]
    if follows or step["place"] == 1:
        return ways.chooses(last["node"] if follows else START)
    return False


def _calls_lines(
    step: dict[str, Any], texts: EarlierTexts, title: str, brief: bool = False
) -> Iterator[TraceLine]:
    """Yield the lines of a step's model calls that are not shown elsewhere, and of retries."""
    for call in step["calls"]:
        if not (call["messages_field"] or brief):
            yield from texts.fold_messages(field, "to model", roles_of(call["messages"]), title)
        for again in call["retries"]:
            status = ""
            if again["status"]:
                status = f" (HTTP {again['status']})"
            waited = f"waited {again['wait']:.2f} s"
            yield note(
                f"attempt {again['attempt']} failed: {again['error']}{status}; {waited}", "yellow"
            )
        if call["reply"] and not (call["reply_field"] or brief):
            yield field("model said", content_of(call["reply"]), call["finish"])
        if call["error"] and call["error"] != step["error"]:
            yield note(call["error"], "red")


def _update_lines(
    update: dict[str, Any], before: dict[str, Any], texts: EarlierTexts, title: str
) -> Iterator[TraceLine]:
    """Yield the lines of a node's update.

    They show retrieved entries with scores, the exact prompt, the reply, and all other fields. Of
    a text or list that was appended to, only the new part is shown; unchanged values are left out.
    """
    if "hits" in update:
        fresh = new_hits(update["hits"], before.get("hits", ()))
        for number, hit in enumerate(fresh, 1):
            aside = f"score {hit.get('score', math.nan):.4f} {hit.get('edit_id', '')}"
            yield item(f"hit {number}", str(hit.get("text", "")), aside, indent=4)
        if not fresh:
            yield item("hits", "as before" if update["hits"] else "none", indent=4)
    for name in ("prompt", "reply"):
        if name in update:
            is_prompt = name == "prompt"
            if is_prompt and is_conversation(before):
                yield note("prompt: the messages above", "dim")
            elif is_prompt and update.get("turns"):
                yield from texts.fold_messages(field, name, roles_of(update["turns"]), title)
            else:
                yield texts.fold(field, name, str(update[name]), title)
    if update.get("log_probs"):
        yield item(
            "log-probs", ", ".join(f"{value:.3f}" for value in update["log_probs"]), indent=4
        )
    for name, value in update.items():
        nothing = value in ("", [], False, None) and name not in before
        if name not in SHOWN_SEPARATELY and value != before.get(name) and not nothing:
            grown, new = grown_by(value, before.get(name))
            label = one_line(name)
            if grown:
                label += " +"
            if isinstance(new, list) and new and all(isinstance(entry, dict) for entry in new):
                first = len(value) - len(new) + 1
                for number, entry in enumerate(new, first):
                    aside, text = entry_texts(entry)
                    yield item(f"{one_line(name)} {number}", text, aside, indent=4)
            else:
                yield field(label, brief(new))
