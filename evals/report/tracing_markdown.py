"""A trace as Markdown, for an issue or a page: every prompt and reply whole, the way through the graph as Mermaid."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from emend.evals.report.escape import one_line, safe
from emend.evals.report.tracing import (
    SAID_ELSEWHERE,
    content_of,
    cost,
    grown_by,
    heading,
    judged_heading,
    log_probs,
    no_hits,
    retry_told,
    right,
    step_cost,
    step_title,
)
from emend.evals.trace.case_trace import Trace, TracedProbe, new_hits, states_before
from emend.evals.trace.graph_paths import mermaid, paths_of
from emend.evals.trace.judged_steps import JudgedItem

_MARKS = re.compile(r"([\\`*_\[\]<>|#~!])")
_TICKS = re.compile(r"`{3,}")


def markdown(trace: Trace) -> str:
    """The whole trace."""
    return "\n".join(_lines(trace)).strip()


def _lines(trace: Trace) -> Iterator[str]:
    yield f"# Case {trace.number} ({_plain(trace.case)}), {_plain(trace.setting)}"
    yield ""
    for edit in trace.edits:
        yield f"- edit, {_plain(edit['form'])} {_plain(edit['id'])}: {_plain(edit['text'])}"
    for probe in trace.probes:
        yield from _probe(trace, probe)
    for failure in trace.failures:
        yield f"\n## {_plain(failure['editor'])} failed\n"
        yield from _block("error", f"{failure['error']}: {failure['message']}")
        yield from _steps(failure["steps"])
    if not trace.probes and not trace.failures:
        yield "\nNothing failed, was retried or is unscored."


def _probe(trace: Trace, probe: TracedProbe) -> Iterator[str]:
    record, ways = probe.record, trace.ways.get(probe.record.editor)
    yield f"\n## {_plain(heading(record))}\n"
    yield f"- asked: {_plain(record.prompt)}"
    yield f"- right: {_plain(right(record))}"
    if record.answer is not None:
        yield f"- answer: {_plain(record.answer)}"
    if record.log_probs:
        yield f"- log-probs: {_plain(log_probs(record))}"
    scores = [f"{_plain(name)} {value:.3g}" for name, value in record.values.items()]
    scores += [f"{_plain(name)} unscored ({_plain(why)})" for name, why in record.unscored.items()]
    yield f"- scored: {', '.join(scores) or 'nothing'}"
    yield f"- cost: {cost(record)}"
    if ways is not None and probe.steps:
        yield from ("", "```mermaid", mermaid(ways, paths_of(ways, probe.steps)), "```")
    yield from _steps(probe.visible_steps, probe.steps)
    for item in probe.judged:
        yield from _judged(item)


def _judged(item: JudgedItem) -> Iterator[str]:
    judgement = item.judgement
    yield f"\n### {_plain(judged_heading(item))}\n"
    values = ", ".join(f"{_plain(name)} {value:.3g}" for name, value in judgement.values.items())
    yield f"- verdict: {values or 'none'}" + (f" ({_plain(judgement.problem)})" if judgement.problem else "")
    if judgement.reason:
        yield f"- reason: {_plain(judgement.reason)}"
    yield from _steps(item.steps)


def _steps(steps: Sequence[dict[str, Any]], whole: Sequence[dict[str, Any]] = ()) -> Iterator[str]:
    """The steps; `whole` has those that are not shown as well."""
    judgement: list[tuple[str, Any]] = []
    for step, state in states_before(whole or steps, steps):
        same = (step["node"], step["update"]) in judgement
        judgement.append((step["node"], step["update"]))
        yield f"\n**{_plain(step_title(step))}** {_plain(step_cost(step))}" + (", as above" if same else "")
        if step["error"]:
            yield from _block("error", step["error"])
        if same:
            continue
        for call in step["calls"]:
            yield from _call(call)
        yield from _update(step["update"] or {}, state)


def _call(call: dict[str, Any]) -> Iterator[str]:
    for message in call["messages"]:
        yield from _block(f"to model, {message['role']}", content_of(message))
    for again in call["retries"]:
        yield f"- {_plain(retry_told(again))}"
    if call["reply"]:
        yield from _block("model said", content_of(call["reply"]))


def _update(update: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Fields that a node changed; of a field that only grew, the new part."""
    for name, value in update.items():
        if name == "hits":
            yield from _hits(value, before.get("hits", ()))
        elif name not in SAID_ELSEWHERE and (name not in before or value != before[name]):
            grown, new = grown_by(value, before.get(name))
            text = new if isinstance(new, str) else json.dumps(new, ensure_ascii=False, indent=1)
            yield from _block(name + (" +" if grown else ""), text)


def _hits(hits: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> Iterator[str]:
    fresh = new_hits(hits, before)
    yield "" if fresh else f"\n- hits: {no_hits(hits)}"
    for place, hit in enumerate(fresh, 1):
        yield f"- hit {place}, score {hit.get('score', 0):.4f}, {_plain(str(hit.get('edit_id', '')))}: " + _plain(
            str(hit.get("text", ""))
        )


def _block(name: str, text: str) -> Iterator[str]:
    """A text as it is, in a fence that is longer than any in it."""
    longest = max((len(fresh) for fresh in _TICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    yield from (f"\n{_plain(name)}:", "", f"{fence}text", safe(text), fence)


def _plain(text: str) -> str:
    """Escape a text for Markdown and join it to one line."""
    return _MARKS.sub(r"\\\1", one_line(text))
