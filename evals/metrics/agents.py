"""Scores of agents: tool calls, and states of a memory, against gold."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage, messages_from_dict

from emend.agents.parsing.delimiters import strip_delimiters
from emend.agents.roles.tools import CHANGE
from emend.memory.edit import FrozenModel
from emend.memory.probe import Answer, Step


class ToolCall(FrozenModel):
    """A tool call; `problem` is the reason if it could not be run, and `edit_ids` are the edits in
    its result.
    """

    name: str
    arguments: dict[str, Any] = {}
    problem: str = ""
    edit_ids: tuple[str, ...] = ()


def read_calls(
    messages: Sequence[AnyMessage], edits: Mapping[str, str] | None = None
) -> list[ToolCall]:
    """Return the tool calls of a conversation.

    Args:
        messages: the conversation; the result of a call that could not be run has the `status`
            error.
        edits: edit ids by the text of the edit.
    """
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
    answers = [each for each in messages if isinstance(each, AIMessage)]
    return [call for answer in answers for call in _calls(answer, results, edits or {})]


def _calls(
    message: AIMessage, results: Mapping[str, ToolMessage], edits: Mapping[str, str]
) -> Iterator[ToolCall]:
    for call in message.tool_calls:
        result = results.get(call["id"] or "")
        text = str(result.text) if result else ""
        problem = text if result is not None and result.status == "error" else ""
        ids = dict.fromkeys(id for content, id in edits.items() if content in text and not problem)
        yield ToolCall(
            name=call["name"], arguments=call["args"], problem=problem, edit_ids=tuple(ids)
        )
    for broken in message.invalid_tool_calls:
        yield ToolCall(
            name=broken["name"] or "",
            problem=broken["error"] or "the arguments are not a JSON object",
        )


class StateComparison(FrozenModel):
    """A memory's state compared with gold: common facts, extra facts, and missing facts."""

    right: int
    wrong: int
    missing: int

    @property
    def precision(self) -> float | None:
        """Share of the memory's facts that are in gold; None for an empty memory."""
        if self.right + self.wrong:
            return self.right / (self.right + self.wrong)
        return None

    @property
    def recall(self) -> float | None:
        """Share of gold that is in the memory; None without gold."""
        if self.right + self.missing:
            return self.right / (self.right + self.missing)
        return None

    @property
    def is_equal(self) -> bool:
        """True if the memory has exactly the gold facts."""
        return not self.wrong and not self.missing


def compare_states(facts: Iterable[Hashable], gold: Iterable[Hashable]) -> StateComparison:
    """Compare a memory's facts after a trajectory with the gold facts, regardless of the path."""
    present, expected = set(facts), set(gold)
    right = len(present & expected)
    return StateComparison(right=right, wrong=len(present) - right, missing=len(expected) - right)


def count_repeated(calls: Sequence[ToolCall]) -> int:
    """Return the number of calls with the same tool and arguments as an earlier one."""
    pairs = [(call.name, call.arguments) for call in calls]
    return sum(pair in pairs[:at] for at, pair in enumerate(pairs))


def count_recovered(calls: Sequence[ToolCall]) -> int:
    """Return the number of invalid calls that were followed by a valid one.

    The valid call must be of the same tool, unless no call of that name was ever valid; the name is
    then an unknown tool.
    """
    recovered = failed = 0
    failed_by_name: Counter[str] = Counter()
    valid_names = {call.name for call in calls if not call.problem}
    for call in calls:
        if call.problem:
            failed_by_name[call.name] += 1
            failed += call.name not in valid_names
            continue
        # A valid call recovers the earlier failed calls of its tool and of unknown tools.
        recovered += failed_by_name.pop(call.name, 0) + failed
        failed = 0
    return recovered


def score_calls(edit_ids: Collection[str], answer: Answer) -> dict[str, float]:
    """Score the calls behind an answer by the relevant edits that they found; {} without calls or
    edits.

    `edits_found` is the share of the relevant edits that calls returned, and `all_edits_found`
    whether it is 1; `needless_calls` is the number of calls that returned no new relevant edit;
    `invalid_calls` the number that could not be run, and `recovered` the share of these that was
    recovered.
    """
    calls = _calls_of_steps(answer.steps)
    if not calls or not edit_ids:
        return {}
    relevant, returned, needless = set(edit_ids), set[str](), 0
    for call in calls:
        new = relevant.intersection(call.edit_ids) - returned
        needless += not call.problem and not new
        returned |= new
    invalid = sum(bool(call.problem) for call in calls)
    values = {
        "calls": float(len(calls)),
        "edits_found": len(returned) / len(relevant),
        "all_edits_found": float(returned == relevant),
        "needless_calls": float(needless),
        "repeated_calls": float(count_repeated([call for call in calls if not call.problem])),
        "invalid_calls": float(invalid),
    }
    return values | ({"recovered": count_recovered(calls) / invalid} if invalid else {})


def _calls_of_steps(steps: Sequence[Step]) -> list[ToolCall]:
    """Return the calls of the conversation in a graph's state; none for a graph without one."""
    stored = next(
        (step.update["messages"] for step in reversed(steps) if step.update.get("messages")), None
    )
    hits = next((step.update["hits"] for step in reversed(steps) if "hits" in step.update), None)
    try:
        messages: Any = messages_from_dict(stored) if stored else []
        edits = {strip_delimiters(hit["text"], CHANGE): hit["edit_id"] for hit in hits or ()}
    except Exception:  # a user's graph may have other values under these names
        return []
    return read_calls(messages, edits)
