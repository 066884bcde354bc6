"""Scores of agents: answers over a stream by the kind of question, and trajectories of tool calls against gold.

A trajectory is a sequence of turns, each with the calls that a model made together. pass^k is that of tau-bench (Yao
et al. 2024): the chance that all of k attempts succeed, estimated without bias from n attempts.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import comb
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage, messages_from_dict

from emend.agents.parsing.abstention import abstains
from emend.evals.metrics.scores import NO_TEXT, ProbeScores
from emend.evals.metrics.text import asserts
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe, Step
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography

ABSTAINS, REASONS, SET = "abstains", "wrong", "set"
"""Tags of a probe: whether it is right to abstain, the reasons of its `choices` joined by commas; and a kind."""
UNKNOWN = "unknown"
"""Gold of a probe that it is right not to answer."""
STORE = "store"
"""Field of a step with the size of the memory, and how its state compares with gold."""
PLANTED = ("{}", "It is {}.", "The answer is {}.")
MAX_PLANTED = 4
"""Number of wrong answers of a question that are planted."""
BYTES_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Tokens of a text by one rule for all systems and models: a token for every four bytes, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def is_right(probe: Probe, text: str) -> bool:
    """Return whether a text is the right answer to a question of a stream.

    It is where it abstains and should, names all items of a set and no wrong one, or asserts a gold answer and none of
    the wrong ones.
    """
    if probe.tags.get(ABSTAINS):
        return abstains(text, probe.prompt)
    if probe.kind == SET:
        return _names_all(text, probe.gold) and not _names_any(text, probe.choices)
    return asserts(text, probe.gold, probe.choices, probe.prompt)


def false_acceptance(probe: Probe) -> float | None:
    """The share of wrong answers of a question, each in three wordings, that `is_right` takes; None without any."""
    planted = [form.format(answer) for answer in probe.choices[:MAX_PLANTED] for form in PLANTED]
    return sum(is_right(probe, text) for text in planted) / len(planted) if planted else None


def score_memory(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`correct`, for each reason of a wrong answer whether one is given, false acceptance, and the cost of the context.

    `gives_stale`, `gives_deleted`, `gives_other_user` and `gives_injected` are there where the question has such wrong
    answers; `evidence`, `context_tokens` and `recall_ms` where the system showed what it recalled; `store_*` and
    `state_*` for the first question at a place of the stream.
    """
    values = _costs(answer) | _evidence(probe, answer)
    rate = false_acceptance(probe)
    values |= {} if rate is None else {"false_acceptance": rate}
    if answer.text is None:
        return ProbeScores(values, {"correct": NO_TEXT})
    passage = answer.text if answer.passage is None else answer.passage
    values["correct"] = float(is_right(probe, passage))
    for reason, wrong in _by_reason(probe).items():
        values[f"gives_{reason}"] = float(_gives(probe, passage, wrong))
    return ProbeScores(values, {})


def _evidence(probe: Probe, answer: Answer) -> dict[str, float]:
    """The share of the turns that decide the answer which are in the context, if that has turns at all."""
    turns = {*probe.edit_ids}
    if not turns or not any("hits" in step.update for step in answer.steps):
        return {}
    return {"evidence": len(turns.intersection(answer.retrieved)) / len(turns)}


def _by_reason(probe: Probe) -> dict[str, list[str]]:
    """The wrong answers of a probe by their reason."""
    reasons = str(probe.tags.get(REASONS, "")).split(",")
    by: dict[str, list[str]] = {}
    for reason, value in zip(reasons, probe.choices, strict=False):
        by.setdefault(reason, []).append(value)
    return by


def _gives(probe: Probe, passage: str, wrong: Sequence[str]) -> bool:
    if probe.kind == SET:
        return _names_any(passage, wrong)
    rivals = () if probe.tags.get(ABSTAINS) else probe.gold
    return asserts(passage, wrong, rivals, probe.prompt)


def _costs(answer: Answer) -> dict[str, float]:
    values: dict[str, float] = {}
    for step in answer.steps:
        if "hits" in step.update and "context_tokens" not in values:
            hits: Sequence[dict[str, Any]] = step.update["hits"]
            values["context_tokens"] = float(sum(count_tokens(hit["text"]) for hit in hits))
            values["recall_ms"] = step.ms
        if isinstance(store := step.update.get(STORE), dict):
            values |= {name: float(value) for name, value in store.items() if value is not None}
    return values


def _names_all(text: str, names: Iterable[str]) -> bool:
    return all(_name(name).search(fold_typography(text)) for name in names)


def _names_any(text: str, names: Iterable[str]) -> bool:
    return any(_name(name).search(fold_typography(text)) for name in names)


@lru_cache(maxsize=2**14)
def _name(name: str) -> Any:
    return whole(fold_typography(name), any_case=True)


MatchMode = Literal["strict", "unordered", "subset", "superset"]
ArgumentRule = Literal["exact", "ignore", "subset", "superset"]
Same = Callable[["ToolCall", "ToolCall"], bool]


class ToolCall(FrozenModel):
    """A call of a tool; `problem` says why it could not be run, `edit_ids` are of the edits that its result has."""

    name: str
    arguments: dict[str, Any] = {}
    problem: str = ""
    edit_ids: tuple[str, ...] = ()


Turns = Sequence[Sequence[ToolCall]]


class TrajectoryCounts(FrozenModel):
    """Calls against gold.

    `needless` calls match no gold call that is left, and `repeated` ones equal an earlier call; `missing` gold calls
    were not made; `invalid` calls could not be run, and `recovered` ones of them were followed by a call that could, of
    the same tool or in the place of a tool that does not exist.
    """

    calls: int
    needless: int
    repeated: int
    missing: int
    invalid: int
    recovered: int


def read_turns(messages: Sequence[AnyMessage], edits: Mapping[str, str] | None = None) -> list[list[ToolCall]]:
    """The turns of a conversation that have calls.

    Args:
        messages: the conversation, a result with `status` error for a call that could not be run.
        edits: text of an edit, and its id.
    """
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
    turns = [list(_calls(each, results, edits or {})) for each in messages if isinstance(each, AIMessage)]
    return [turn for turn in turns if turn]


def _calls(message: AIMessage, results: Mapping[str, ToolMessage], edits: Mapping[str, str]) -> Iterator[ToolCall]:
    for call in message.tool_calls:
        result = results.get(call["id"] or "")
        text = str(result.text) if result else ""
        problem = text if result is not None and result.status == "error" else ""
        ids = dict.fromkeys(id for content, id in edits.items() if content in text) if not problem else ()
        yield ToolCall(name=call["name"], arguments=call["args"], problem=problem, edit_ids=tuple(ids))
    for broken in message.invalid_tool_calls:
        yield ToolCall(name=broken["name"] or "", problem=broken["error"] or "the arguments are no JSON object")


def matches(
    turns: Turns,
    gold: Turns,
    mode: MatchMode,
    arguments: ArgumentRule = "exact",
    by_tool: Mapping[str, ArgumentRule] | None = None,
) -> bool:
    """True if a trajectory matches gold.

    Args:
        turns: the trajectory; calls that could not be run count like others.
        gold: the trajectory that is right.
        mode: `strict` has the same turns in the same order, `unordered` the same calls, `subset` no other calls than
            gold, `superset` all calls of gold.
        arguments: how the arguments of two calls must agree: a `subset` has no other arguments than gold's.
        by_tool: other rules, by the name of the tool.

    Raises:
        BadSettings: unknown mode or rule.
    """

    def same(call: ToolCall, other: ToolCall) -> bool:
        return _same_call(call, other, (by_tool or {}).get(call.name, arguments))

    if mode == "strict":
        equal = len(turns) == len(gold)
        return equal and not any(any(_left_over(*pair, same)) for pair in zip(turns, gold, strict=True))
    needless, missing = _left_over(_flat(turns), _flat(gold), same)
    if mode == "unordered":
        return not needless and not missing
    if mode == "superset":
        return not missing
    if mode == "subset":
        return not needless
    raise BadSettings(f"unknown mode '{mode}' of trajectories: strict, unordered, subset or superset.")


class StateComparison(FrozenModel):
    """A memory's state against gold: facts in both, those that should not be there, and those that are not there."""

    right: int
    wrong: int
    missing: int

    @property
    def precision(self) -> float | None:
        """Share of the memory's facts that are in gold; None for an empty memory."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """Share of gold that is in the memory; None without gold."""
        return self.right / (self.right + self.missing) if self.right + self.missing else None

    @property
    def is_equal(self) -> bool:
        """True if the memory has all facts of gold, and no other."""
        return not self.wrong and not self.missing


def compare_states(facts: Iterable[Hashable], gold: Iterable[Hashable]) -> StateComparison:
    """Compare the facts that a memory has after a trajectory with those that it should have, by whatever path."""
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
    """The calls that match no gold call, and the gold calls that no call matches, by a largest matching."""
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
    """Needless, repeated, missing, invalid and recovered calls against gold."""
    calls = _flat(turns)
    valid = [call for call in calls if not call.problem]
    needless, missing = _left_over(valid, _flat(gold), lambda call, other: _same_call(call, other, arguments))
    return TrajectoryCounts(
        calls=len(calls),
        needless=len(needless),
        repeated=count_repeated(valid),
        missing=len(missing),
        invalid=len(calls) - len(valid),
        recovered=count_recovered(calls),
    )


def count_repeated(calls: Sequence[ToolCall]) -> int:
    """Number of calls with the tool and the arguments of an earlier one."""
    pairs = [(call.name, call.arguments) for call in calls]
    return sum(pair in pairs[:at] for at, pair in enumerate(pairs))


def count_recovered(calls: Sequence[ToolCall]) -> int:
    """Number of calls that could not be run and that a valid one came after.

    It must be of the same tool, unless no call of that name was ever valid: then it stands for an unknown tool.
    """
    known = {call.name for call in calls if not call.problem}
    return sum(
        bool(call.problem)
        and any(not later.problem and (later.name == call.name or call.name not in known) for later in calls[at + 1 :])
        for at, call in enumerate(calls)
    )


def pass_hat_k(successes: int, attempts: int, k: int) -> float:
    """pass^k: the chance that k attempts all succeed, C(successes, k) / C(attempts, k).

    Raises:
        BadSettings: k is below 1 or above the attempts.
    """
    if not 1 <= k <= attempts:
        raise BadSettings(f"pass^{k} of {attempts} attempts: k is from 1 to the number of attempts (--repeats).")
    return comb(successes, k) / comb(attempts, k)


def score_calls(probe: Probe, answer: Answer) -> dict[str, float]:
    """Scores of the calls behind an answer, by which the probe's edits were to be found; {} without calls or edits.

    `edits_found` is the share of the relevant edits that calls returned and `all_edits_found` whether it is 1;
    `needless_calls` returned no relevant edit that is new; `invalid_calls` could not be run, `recovered` is their share
    that was mended.
    """
    calls = _flat(_turns_of_steps(answer.steps))
    if not calls or not probe.edit_ids:
        return {}
    relevant, returned, needless = set(probe.edit_ids), set[str](), 0
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
    """The turns of the conversation that a graph's state holds; none for another graph."""
    stored = next((step.update["messages"] for step in reversed(steps) if step.update.get("messages")), None)
    hits = next((step.update["hits"] for step in reversed(steps) if "hits" in step.update), None)
    try:
        messages: Any = messages_from_dict(stored) if stored else []
        edits = {hit["text"]: hit["edit_id"] for hit in hits or ()}
    except Exception:  # a user's graph may hold anything under these names
        return []
    return read_turns(messages, edits)
