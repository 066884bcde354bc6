"""A panel of judges: models, repeats and orders over the same items, and how the votes become one number."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, FiniteFloat, model_validator

from emend.agents.judging.base import Item
from emend.agents.providers.repetition import repetition
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings, CallDropped, ModelUnreachable, RateLimited, TooManyFailures
from emend.memory.probe import Step, Usage
from emend.memory.redaction import hide_keys

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.graphs.judges.graph import Judge

NOT_YET = "not judged yet"
ORDER_DEPENDENT = "the verdict changes with the order of the two texts"
MAX_FAILED = 20
"""Once more calls than this, and more than succeeded, failed because of the provider, no more are made."""

JudgementKey = tuple[str, str, str, int, bool]
"""Item, kind, judge, repeat, swapped."""


def load_judge(name: str) -> "Judge":
    """Load the judge of that name, or at that `module:attribute`.

    Raises:
        BadSettings: there is none, or what is there is no judge.
    """
    judge = JUDGES.load(name)
    if not all(hasattr(judge, part) for part in ("role", "name", "judge")):
        raise BadSettings(f"judge '{name}' is {judge!r:.60} and no Judge: see docs/how-to/judges.md, Your own.")
    return judge


class Panel(FrozenModel):
    """Who judges and how: models by name, repeats, both orders where a judge has them, and how votes are combined.

    `batch` False asks about one item at a time where the published judge takes several; `retries` is how often an
    unparsable reply is asked for again.

    Raises:
        BadSettings: no judge, or an impossible number.
    """

    judges: tuple[str, ...]
    repeats: int = 1
    both_orders: bool = True
    batch: bool = True
    retries: int = 1
    combine: Literal["majority", "mean"] = "majority"

    @model_validator(mode="after")
    def _possible(self) -> "Panel":
        if not self.judges:
            raise BadSettings("no judge is named: give at least one, for example --judge openai:NAME.")
        if self.repeats < 1 or not 0 <= self.retries < 10:
            raise BadSettings(f"repeats is {self.repeats}, retries {self.retries}: give 1 or more, and 0 to 9.")
        return self

    def orders(self, judge: "Judge") -> tuple[bool, ...]:
        """Orders that are asked: for each, whether the parts are swapped."""
        return (False, True) if self.both_orders and judge.role.swaps else (False,)

    def models(self, policy: "CallPolicy | None", settings: Mapping[str, Any]) -> "dict[str, BaseChatModel]":
        """Load the judges' models, by name.

        Raises:
            BadSettings: no such model, or a setting that it does not have.
        """
        from emend.agents.llm import load_model

        return {spec: load_model(spec, policy, **settings) for spec in self.judges}


def judge_id(judges: Sequence[str]) -> str:
    """Make the name under which a calibration is stored: the judges' names, fit for a path, and a digest.

    >>> judge_id(["openai:gpt-4.1"])[:15]
    'openai-gpt-4.1-'
    """
    names = sorted(judges)
    plain = re.sub(r"[^\w.]+", "-", "+".join(names)).strip("-.")[:60]
    return f"{plain}-{content_id('judge', names)[:8]}"


class Judgement(FrozenModel):
    """Verdict of one judge on one item in one repeat and order; a line of a scoring."""

    item: str
    kind: str
    judge: str
    repeat: int = 0
    swapped: bool = False
    values: dict[str, FiniteFloat] = {}
    reason: str = ""
    problem: str = ""
    """Why there are no values."""
    reply: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    steps: tuple[Step, ...] = Field(default=(), exclude=True)
    """Steps of the judge's graph, at the first item of a call; kept beside the line, not in it."""

    @property
    def key(self) -> JudgementKey:
        """Identity: what has this key is not asked twice."""
        return (self.item, self.kind, self.judge, self.repeat, self.swapped)

    def without_texts(self) -> "Judgement":
        """Copy without reason and reply, which take most of the room."""
        return self.model_copy(update={"reason": "", "reply": "", "steps": ()})


class CombinedVerdict(NamedTuple):
    """An item's numbers, and a reason for each missing one."""

    values: dict[str, float]
    unscored: dict[str, str]


class JudgeCall(NamedTuple):
    """One question to one judge about one item, or several that are judged together."""

    judge: "Judge"
    items: tuple[Item, ...]
    spec: str
    repeat: int
    swapped: bool

    def keys(self) -> list[JudgementKey]:
        """Keys of the judgements that the call gives."""
        return [(item.id, self.judge.name, self.spec, self.repeat, self.swapped) for item in self.items]


def make_calls(panel: Panel, judge: "Judge", items: Sequence[Item], judged: set[JudgementKey]) -> Iterator[JudgeCall]:
    """List the calls about items of one kind that are not done yet; each item once, however often it occurs."""
    unique = list({item.id: item for item in items if item.kind == judge.name}.values())
    size = judge.role.batch if panel.batch else 1
    batches = [tuple(unique[start : start + size]) for start in range(0, len(unique), size)]
    for repeat in range(panel.repeats):
        for spec in panel.judges:
            for swapped in panel.orders(judge):
                for batch in batches:
                    call = JudgeCall(judge, batch, spec, repeat, swapped)
                    left = tuple(i for i, key in zip(batch, call.keys(), strict=True) if key not in judged)
                    if left:
                        yield call._replace(items=left)


def ask_judge(call: JudgeCall, model: "BaseChatModel", retries: int = 1) -> list[Judgement]:
    """Make one call; an unusable reply is a problem in its judgements.

    Raises:
        ModelError: the model could not be called.
    """
    start = time.perf_counter()
    with repetition(call.repeat):
        verdicts = call.judge.judge(call.items, model, swapped=call.swapped, retries=retries)
    seconds = round((time.perf_counter() - start) / len(verdicts), 6)
    return [
        Judgement(
            item=item.id,
            kind=call.judge.name,
            judge=call.spec,
            repeat=call.repeat,
            swapped=call.swapped,
            seconds=seconds,
            **dict(verdict) | {"problem": hide_keys(verdict.problem)},
        )
        for item, verdict in zip(call.items, verdicts, strict=True)
    ]


@dataclass
class CallCounts:
    """Numbers of calls that succeeded and failed, and the first failure."""

    succeeded: int = 0
    failed: int = 0
    first_failure: str = ""


def ask_all(
    calls: Iterator[JudgeCall],
    models: "Mapping[str, BaseChatModel]",
    keep: Callable[[list[Judgement]], None],
    retries: int = 1,
    concurrency: int = 4,
) -> CallCounts:
    """Make the calls, several at a time, and keep what each gives at once.

    A call that fails because its provider does not answer is left out, and can be made another time.

    Raises:
        TooManyFailures: too many calls failed like that.
        ModelError: of another kind, which every call would meet; what was judged is kept.
    """
    from emend.evals.run.units import TaskQueue

    counts, lock = CallCounts(), threading.Lock()

    def make(call: JudgeCall) -> None:
        try:
            judgements = ask_judge(call, models[call.spec], retries)
        except (ModelUnreachable, RateLimited, CallDropped) as error:
            with lock:
                counts.failed += 1
                counts.first_failure = counts.first_failure or f"{type(error).__name__}: {hide_keys(str(error))}"
                if counts.failed > max(MAX_FAILED, counts.succeeded):
                    raise TooManyFailures(
                        f"{counts.failed} calls to judges failed, the first with {counts.first_failure}. What was "
                        "judged is kept; the same command goes on."
                    ) from error
            return
        keep(judgements)
        with lock:
            counts.succeeded += 1

    with ThreadPoolExecutor(concurrency, "emend-judge") as pool:
        queue = TaskQueue(pool, 2 * concurrency)
        try:
            for call in calls:
                queue.put(partial(make, call))
            queue.drain()
        finally:
            pool.shutdown(cancel_futures=True)
    return counts


def combine(panel: Panel, judge: "Judge", judgements: Sequence[Judgement]) -> CombinedVerdict:
    """Combine one item's judgements into one number per output.

    Both orders of one judge and repeat are one vote: marks are averaged, and a yes or no that changes with the order is
    no vote. Votes on yes or no, and on full marks, are decided by majority; marks and shares are averaged. With
    `combine` mean everything is averaged. An item with votes from half of the voters or fewer has no number.
    """
    role, votes, problems = judge.role, list[dict[str, float]](), list[str]()
    by_voter: dict[tuple[str, int], list[Judgement]] = {}
    for judgement in judgements:
        by_voter.setdefault((judgement.judge, judgement.repeat), []).append(judgement)
    for spec in panel.judges:
        for repeat in range(panel.repeats):
            vote = _vote(by_voter.get((spec, repeat), []), len(panel.orders(judge)), judge)
            if isinstance(vote, str):
                problems.append(vote)
            else:
                votes.append(vote)
    if len(votes) <= len(problems):
        return CombinedVerdict({}, dict.fromkeys(role.outputs, _reason(problems, len(votes) + len(problems))))
    combined = CombinedVerdict({}, {})
    for name in role.outputs:
        values = [vote[name] for vote in votes if name in vote]
        value = _decide(values, name in role.voted and panel.combine == "majority")
        if isinstance(value, str):
            combined.unscored[name] = value if values else role.missing
        else:
            combined.values[name] = value
    return combined


def _vote(judgements: Sequence[Judgement], orders: int, judge: "Judge") -> dict[str, float] | str:
    """One judge's vote in one repeat, or why there is none."""
    if len(judgements) < orders:
        return NOT_YET
    for judgement in judgements:
        if judgement.problem:
            return judgement.problem
    names = [name for name in judgements[0].values if all(name in judgement.values for judgement in judgements)]
    values = {name: [judgement.values[name] for judgement in judgements] for name in names}
    if judge.role.scale == "yes or no" and any(len(set(by_order)) > 1 for by_order in values.values()):
        return ORDER_DEPENDENT
    try:
        return judge.role.derive({name: fmean(by_order) for name, by_order in values.items()})
    except KeyError as error:  # of a scoring that was not written by this judge
        return f"the judgement has no value {error}"


def _decide(values: Sequence[float], by_majority: bool) -> float | str:
    if not values:
        return "no vote"
    if not by_majority:
        return fmean(values)
    ayes = sum(vote == 1.0 for vote in values)
    if 2 * ayes == len(values):
        return f"the votes are split {ayes} to {len(values) - ayes}"
    return float(2 * ayes > len(values))


def _reason(problems: Sequence[str], voters: int) -> str:
    return problems[0] if voters == 1 else f"{len(problems)} of {voters} judgements are unusable: {problems[0]}"
