"""Several judges, repeats and orders over the same items: what is asked, and how the votes become one number."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, model_validator

from emend.agents.judging.base import Item
from emend.agents.providers.policy import repetition
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings, CallDropped, ModelUnreachable, RateLimited, TooManyFailures
from emend.memory.probe import Step, Usage
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

Combining = Literal["majority", "mean"]
NOT_YET = "not judged yet"
TURNED = "the verdict changes with the order of the two texts"
MOST_FAILED = 20
"""After so many calls that failed for the provider's sake, more than those that did not, no more are made."""


class Panel(FrozenModel):
    """Who judges and how: models by name, repeats, both orders where a judge has them, and how votes are combined.

    `batch` False asks about one item at a time where the published judge takes several; `retries` is how often an
    unreadable reply is asked for again.

    Raises:
        BadSettings: no judge, or an impossible number.
    """

    judges: tuple[str, ...]
    repeats: int = 1
    both_orders: bool = True
    batch: bool = True
    retries: int = 1
    combine: Combining = "majority"

    @model_validator(mode="after")
    def _possible(self) -> "Panel":
        if not self.judges:
            raise BadSettings("no judge is named: give at least one, for example --judge openai:NAME.")
        if self.repeats < 1 or not 0 <= self.retries < 10:
            raise BadSettings(f"repeats is {self.repeats}, retries {self.retries}: give 1 or more, and 0 to 9.")
        if self.combine not in ("majority", "mean"):
            raise BadSettings(f"unknown way to combine '{self.combine}': {nearest(self.combine, ['majority', 'mean'])}")
        return self

    def orders(self, judge: "Judge") -> tuple[bool, ...]:
        """Whether the parts are swapped, for each order that is asked."""
        return (False, True) if self.both_orders and judge.role.swaps else (False,)


def judge_id(judges: Sequence[str]) -> str:
    """What a calibration is kept under: the judges' names, fit for a path, and a digest that tells like ones apart.

    >>> judge_id(["openai:gpt-4.1"])[:15]
    'openai-gpt-4.1-'
    """
    names = sorted(judges)
    plain = re.sub(r"[^\w.]+", "-", "+".join(names)).strip("-.")[:60]
    return f"{plain}-{content_id('judge', names)[:8]}"


class Judgement(FrozenModel):
    """What one judge said of one item in one repeat and order; a line of a scoring."""

    item: str
    kind: str
    judge: str
    repeat: int = 0
    swapped: bool = False
    values: dict[str, float] = {}
    reason: str = ""
    problem: str = ""
    """Why there are no values."""
    reply: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    steps: tuple[Step, ...] = Field(default=(), exclude=True)
    """What the judge's graph did, at the first item of a call; kept beside the line, not in it."""

    @property
    def key(self) -> tuple[str, str, str, int, bool]:
        """What is not asked twice."""
        return (self.item, self.kind, self.judge, self.repeat, self.swapped)

    def but_numbers(self) -> "Judgement":
        """The same without reason and reply, which take most of the room."""
        return self.model_copy(update={"reason": "", "reply": "", "steps": ()})


class Combined(NamedTuple):
    """An item's numbers, and a reason per number that it has not."""

    values: dict[str, float]
    unscored: dict[str, str]


class Call(NamedTuple):
    """One question to one judge about one item, or several that are judged together."""

    judge: "Judge"
    items: tuple[Item, ...]
    spec: str
    repeat: int
    swapped: bool

    def keys(self) -> list[tuple[str, str, str, int, bool]]:
        """Of the judgements that it gives."""
        return [(item.id, self.judge.name, self.spec, self.repeat, self.swapped) for item in self.items]


def calls_of(
    panel: Panel, judge: "Judge", items: Sequence[Item], done: "set[tuple[str, str, str, int, bool]]"
) -> Iterator[Call]:
    """What is to be asked about items of one kind, without what is done; each item once, however often it comes."""
    own = list({item.id: item for item in items if item.kind == judge.name}.values())
    size = judge.role.batch if panel.batch else 1
    chunks = [tuple(own[start : start + size]) for start in range(0, len(own), size)]
    for repeat in range(panel.repeats):
        for spec in panel.judges:
            for swapped in panel.orders(judge):
                for chunk in chunks:
                    whole = Call(judge, chunk, spec, repeat, swapped)
                    left = tuple(i for i, key in zip(chunk, whole.keys(), strict=True) if key not in done)
                    if left:
                        yield whole._replace(items=left)


def ask(call: Call, model: "BaseChatModel", retries: int = 1) -> list[Judgement]:
    """The judgements of one call; a reply that is no use is a problem in them.

    Raises:
        ModelError: the model could not be asked.
    """
    began = time.perf_counter()
    with repetition(call.repeat):
        found = call.judge.judge(call.items, model, swapped=call.swapped, retries=retries)
    seconds = round((time.perf_counter() - began) / len(found), 6)
    return [
        Judgement(
            item=item.id,
            kind=call.judge.name,
            judge=call.spec,
            repeat=call.repeat,
            swapped=call.swapped,
            values=told.values,
            reason=told.reason,
            problem=hide_keys(told.problem),
            reply=told.reply,
            usage=told.usage,
            seconds=seconds,
            steps=told.steps,
        )
        for item, told in zip(call.items, found, strict=True)
    ]


@dataclass
class Tally:
    """What became of the calls."""

    asked: int = 0
    failed: int = 0
    first: str = ""


def ask_all(
    calls: Iterator[Call],
    models: Mapping[str, "BaseChatModel"],
    keep: Callable[[list[Judgement]], None],
    retries: int = 1,
    concurrency: int = 4,
) -> Tally:
    """Make the calls, several at a time, and keep what each gives at once.

    A call that fails because its provider does not answer is left out, and can be made another time.

    Raises:
        TooManyFailures: too many failed so.
        ModelError: of another kind, which would befall every call; what was asked is kept.
    """
    tally, lock = Tally(), threading.Lock()

    def make(call: Call) -> None:
        try:
            found = ask(call, models[call.spec], retries)
        except (ModelUnreachable, RateLimited, CallDropped) as error:
            with lock:
                tally.failed += 1
                tally.first = tally.first or f"{type(error).__name__}: {hide_keys(str(error))}"
            return
        keep(found)
        with lock:
            tally.asked += 1

    with ThreadPoolExecutor(concurrency, "emend-judge") as pool:
        under_way: set[Future[None]] = set()
        try:
            while True:
                under_way |= {pool.submit(make, call) for call in islice(calls, 2 * concurrency - len(under_way))}
                if not under_way:
                    break
                ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for one in ended:
                    one.result()
                if tally.failed > max(MOST_FAILED, tally.asked):
                    raise TooManyFailures(
                        f"{tally.failed} calls to judges failed, the first with {tally.first}. What was judged is "
                        "kept; the same command goes on."
                    )
        finally:
            for one in under_way:
                one.cancel()
    return tally


def combine(panel: Panel, judge: "Judge", judgements: Sequence[Judgement]) -> Combined:
    """One item's judgements as one number per output.

    Both orders of one judge and repeat are one vote: marks are averaged, and a yes or no that changes with the order is
    no vote. Votes on yes or no, and on full marks, are decided by majority; marks and shares are averaged. With
    `combine` mean everything is averaged. An item with votes from half of the voters or fewer has no number.
    """
    role, votes, problems = judge.role, list[dict[str, float]](), list[str]()
    by_voter: dict[tuple[str, int], list[Judgement]] = {}
    for told in judgements:
        by_voter.setdefault((told.judge, told.repeat), []).append(told)
    for spec in panel.judges:
        for repeat in range(panel.repeats):
            vote = _vote(by_voter.get((spec, repeat), []), len(panel.orders(judge)), judge)
            if isinstance(vote, str):
                problems.append(vote)
            else:
                votes.append(vote)
    if len(votes) <= len(problems):
        return Combined({}, dict.fromkeys(role.outputs, _told(problems, len(votes) + len(problems))))
    out = Combined({}, {})
    for name in role.outputs:
        found = [vote[name] for vote in votes if name in vote]
        value = _decide(found, name in role.voted and panel.combine == "majority")
        if isinstance(value, str):
            out.unscored[name] = value if found else role.missing
        else:
            out.values[name] = value
    return out


def _vote(told: Sequence[Judgement], orders: int, judge: "Judge") -> dict[str, float] | str:
    """What one judge said in one repeat, or why that is no vote."""
    if len(told) < orders:
        return NOT_YET
    for one in told:
        if one.problem:
            return one.problem
    names = [name for name in told[0].values if all(name in one.values for one in told)]
    values = {name: [one.values[name] for one in told] for name in names}
    if judge.role.scale == "yes or no" and any(len(set(found)) > 1 for found in values.values()):
        return TURNED
    return judge.role.derive({name: fmean(found) for name, found in values.items()})


def _decide(found: Sequence[float], voted: bool) -> float | str:
    if not found:
        return "no vote"
    if not voted:
        return fmean(found)
    ayes = sum(vote == 1.0 for vote in found)
    if 2 * ayes == len(found):
        return f"the votes are split {ayes} to {len(found) - ayes}"
    return float(2 * ayes > len(found))


def _told(problems: Sequence[str], voters: int) -> str:
    return problems[0] if voters == 1 else f"{len(problems)} of {voters} judgements are no use: {problems[0]}"
