"""Scores of agents: trajectories of tool calls, and states of a memory, against gold.

A trajectory is a sequence of turns, each with the parallel tool calls of a model. pass^k is defined
as in tau-bench (Yao et al. 2024): the probability that k attempts all succeed, with its unbiased
estimate from n attempts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from math import comb
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage, messages_from_dict

from emend.agents.parsing.delimiters import strip_delimiters
from emend.agents.roles.tools import CHANGE
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Step

MatchMode = Literal["strict", "unordered", "subset", "superset"]
ArgumentRule = Literal["exact", "ignore", "subset", "superset"]
Same = Callable[["ToolCall", "ToolCall"], bool]


class ToolCall(FrozenModel):
    """A tool call; `problem` is the reason if it could not be run, and `edit_ids` are the edits in
    its result.
    """

    name: str
    arguments: dict[str, Any] = {}
    problem: str = ""
    edit_ids: tuple[str, ...] = ()


Turns = Sequence[Sequence[ToolCall]]


class TrajectoryCounts(FrozenModel):
    """Counts of tool calls compared with gold.

    `needless` calls match no remaining gold call; `repeated` calls equal an earlier call; `missing`
    gold calls were not made; `invalid` calls could not be run; `recovered` counts the invalid calls
    followed by a valid call of the same tool, or of any tool if the tool does not exist.
    """

    calls: int
    needless: int
    repeated: int
    missing: int
    invalid: int
    recovered: int


def read_turns(
    messages: Sequence[AnyMessage], edits: Mapping[str, str] | None = None
) -> list[list[ToolCall]]:
    """Return the turns of a conversation that have tool calls.

    Args:
        messages: the conversation; the result of a call that could not be run has the `status`
            error.
        edits: edit ids by the text of the edit.
    """
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
    turns = [
        list(_calls(each, results, edits or {})) for each in messages if isinstance(each, AIMessage)
    ]
    return [turn for turn in turns if turn]


def _calls(
    message: AIMessage, results: Mapping[str, ToolMessage], edits: Mapping[str, str]
) -> Iterator[ToolCall]:
    for call in message.tool_calls:
        result = results.get(call["id"] or "")
        text = str(result.text) if result else ""
        problem = text if result is not None and result.status == "error" else ""
        ids = (
            dict.fromkeys(id for content, id in edits.items() if content in text)
            if not problem
            else ()
        )
        yield ToolCall(
            name=call["name"], arguments=call["args"], problem=problem, edit_ids=tuple(ids)
        )
    for broken in message.invalid_tool_calls:
        yield ToolCall(
            name=broken["name"] or "",
            problem=broken["error"] or "the arguments are not a JSON object",
        )


def matches(
    turns: Turns,
    gold: Turns,
    mode: MatchMode,
    arguments: ArgumentRule = "exact",
    by_tool: Mapping[str, ArgumentRule] | None = None,
) -> bool:
    """Return whether a trajectory matches gold.

    Args:
        turns: the trajectory, including calls that could not be run.
        gold: the gold trajectory.
        mode: `strict` has the same turns in the same order, `unordered` the same calls, `subset` no
            other calls than gold, `superset` all calls of gold.
        arguments: how the arguments of two calls must agree; with `subset`, a call has no arguments
            that gold lacks.
        by_tool: rules for the arguments of single tools, by tool name.

    Raises:
        BadSettings: unknown mode or rule.
    """

    def same(call: ToolCall, other: ToolCall) -> bool:
        return _same_call(call, other, (by_tool or {}).get(call.name, arguments))

    if mode == "strict":
        equal = len(turns) == len(gold)
        return equal and not any(
            any(_left_over(*pair, same)) for pair in zip(turns, gold, strict=True)
        )
    needless, missing = _left_over(_flat(turns), _flat(gold), same)
    if mode == "unordered":
        return not needless and not missing
    if mode == "superset":
        return not missing
    if mode == "subset":
        return not needless
    raise BadSettings(
        f"unknown mode '{mode}' of trajectories: strict, unordered, subset or superset."
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


def _is_part(arguments: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return all(name in others and others[name] == value for name, value in arguments.items())


RULES: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "exact": lambda arguments, gold: arguments == gold,
    "ignore": lambda arguments, gold: True,
    "subset": _is_part,
    "superset": lambda arguments, gold: _is_part(gold, arguments),
}


def _same_call(call: ToolCall, gold: ToolCall, rule: ArgumentRule) -> bool:
    if rule not in RULES:
        raise BadSettings(f"unknown rule '{rule}' of arguments: {', '.join(RULES)}.")
    return call.name == gold.name and RULES[rule](call.arguments, gold.arguments)


def _flat(turns: Turns) -> list[ToolCall]:
    return [call for turn in turns for call in turn]


def _left_over(
    calls: Sequence[ToolCall], gold_calls: Sequence[ToolCall], same: Same
) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the calls without a matching gold call, and the gold calls without a matching call, by
    maximum matching.
    """
    partner: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for number, call in enumerate(calls):
            if number not in tried and same(call, gold_calls[at]):
                tried.add(number)
                if number not in partner or place(partner[number], tried):
                    partner[number] = at
                    return True
        return False

    missing = [each for at, each in enumerate(gold_calls) if not place(at, set())]
    return [call for number, call in enumerate(calls) if number not in partner], missing


def count_calls(turns: Turns, gold: Turns, arguments: ArgumentRule = "exact") -> TrajectoryCounts:
    """Count needless, repeated, missing, invalid and recovered calls compared with gold."""
    calls = _flat(turns)
    valid = [call for call in calls if not call.problem]
    needless, missing = _left_over(
        valid, _flat(gold), lambda call, other: _same_call(call, other, arguments)
    )
    return TrajectoryCounts(
        calls=len(calls),
        needless=len(needless),
        repeated=count_repeated(valid),
        missing=len(missing),
        invalid=len(calls) - len(valid),
        recovered=count_recovered(calls),
    )


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


def pass_hat_k(successes: int, attempts: int, k: int) -> float:
    """Return pass^k, the probability that k attempts all succeed: C(successes, k) / C(attempts, k).

    Raises:
        BadSettings: k is below 1 or above the attempts.
    """
    if not 1 <= k <= attempts:
        raise BadSettings(
            f"pass^{k} of {attempts} attempts: k is from 1 to the number of attempts (--repeats)."
        )
    return comb(successes, k) / comb(attempts, k)


def score_calls(edit_ids: Collection[str], answer: Answer) -> dict[str, float]:
    """Score the calls behind an answer by the relevant edits that they found; {} without calls or
    edits.

    `edits_found` is the share of the relevant edits that calls returned, and `all_edits_found`
    whether it is 1; `needless_calls` is the number of calls that returned no new relevant edit;
    `invalid_calls` the number that could not be run, and `recovered` the share of these that was
    recovered.
    """
    calls = _flat(_turns_of_steps(answer.steps))
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


def _turns_of_steps(steps: Sequence[Step]) -> list[list[ToolCall]]:
    """Return the turns of the conversation in a graph's state; none for a graph without one."""
    stored = next(
        (step.update["messages"] for step in reversed(steps) if step.update.get("messages")), None
    )
    hits = next((step.update["hits"] for step in reversed(steps) if "hits" in step.update), None)
    try:
        messages: Any = messages_from_dict(stored) if stored else []
        edits = {strip_delimiters(hit["text"], CHANGE): hit["edit_id"] for hit in hits or ()}
    except Exception:  # a user's graph may have other values under these names
        return []
    return read_turns(messages, edits)
