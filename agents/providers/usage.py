"""Counts and costs of calls to providers, and the budgets at which a run stops."""

import threading
from functools import reduce
from typing import Any

from emend.agents.providers.prices import Prices
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, BudgetReached

COUNTS = ("requests", "replies", "retries", "cached", "untold", "input_tokens", "output_tokens")


class ProviderUsage(FrozenModel):
    """Usage of one model behind an API, or of all.

    `requests` counts every attempt, including failed ones; `replies` the delivered replies;
    `retries` the attempts after the first; `cached` the replies from the cache, which cost nothing.
    `untold` counts replies without token counts, which are missing in tokens and `cost`; `cost` is
    None without a price. `sent` has each set of parameters that calls really sent.
    """

    requests: int = 0
    replies: int = 0
    retries: int = 0
    cached: int = 0
    untold: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    seconds_waited: float = 0.0
    sent: tuple[dict[str, Any], ...] = ()

    def plus(self, other: "ProviderUsage") -> "ProviderUsage":
        """Return the sum; an unknown cost counts as 0."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in COUNTS}
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return ProviderUsage(
            **counts,
            cost=round(sum(costs), 9) if costs else None,
            seconds_waited=round(self.seconds_waited + other.seconds_waited, 3),
            sent=(
                *self.sent,
                *(parameters for parameters in other.sent if parameters not in self.sent),
            ),
        )


def untold_reply(model: str) -> BudgetReached:
    """Return the error for a reply without token counts when the cost is limited."""
    return BudgetReached(
        f"a reply of '{model}' does not report its tokens, so --max-cost cannot be enforced: "
        "resume with --max-calls instead."
    )


class Ledger:
    """The usage of several models and their common budget; thread-safe.

    Args:
        prices: token prices.
        max_cost: budget in the currency of the prices; calls in flight when it is reached may
            exceed it.
        max_calls: maximum number of requests, including retries; never exceeded.

    Raises:
        BadSettings: a limit is below 0, or the cost is limited without prices.
    """

    def __init__(
        self,
        prices: Prices | None = None,
        max_cost: float | None = None,
        max_calls: int | None = None,
    ) -> None:
        for name, limit in (("max-cost", max_cost), ("max-calls", max_calls)):
            if limit is not None and not limit >= 0:
                raise BadSettings(f"--{name} is {limit}: give 0 or more.")
        if max_cost is not None and prices is None:
            raise BadSettings("--max-cost needs the prices of tokens: give --prices FILE.")
        self.prices, self.max_cost, self.max_calls = prices, max_cost, max_calls
        self._lock = threading.Lock()
        self._spent: dict[str, ProviderUsage] = {}
        self._requests, self._cost = 0, 0.0
        self._in_flight, self._dearest = 0, 0.0

    def require_price(self, model: str) -> None:
        """Raise BadSettings if the cost is limited and the model has no price."""
        if self.max_cost is not None and self.prices is not None:
            self.prices.require(model)

    def start_call(self, model: str, is_retry: bool = False) -> None:
        """Count a request before it is sent.

        Raises:
            BudgetReached: the request would exceed a limit; it is not counted.
        """
        with self._lock:
            if self.max_calls is not None and self._requests >= self.max_calls:
                raise BudgetReached(
                    f"{self._requests} calls were made, the limit of --max-calls {self.max_calls}. "
                    "Finished units are kept; the limit starts from 0 at each call of a command."
                )
            # A call in flight is assumed to cost as much as the most expensive reply so far.
            cost = self._cost + self._dearest * (self._in_flight + 1)
            if self.max_cost is not None and (cost > self.max_cost or not self.max_cost):
                raise BudgetReached(
                    f"{self._cost:.4f} was spent, and another call may exceed --max-cost "
                    f"{self.max_cost:g}. Finished units are kept; the limit starts from 0 at each "
                    "call of a command."
                )
            self._in_flight += 1
            self._add(model, requests=1, retries=int(is_retry))

    def end_call(self, model: str, usage: dict[str, Any] | None, replied: bool) -> None:
        """Count the result of a request.

        Args:
            model: the model's spec.
            usage: the `usage_metadata` of the reply, even if unusable; None if unknown.
            replied: whether a reply was delivered.

        Raises:
            BudgetReached: the cost is limited, and the reply has no token counts.
        """
        with self._lock:
            self._in_flight -= 1
            if usage is None:
                self._add(model, replies=int(replied), untold=int(replied))
            else:
                price = self.prices.find(model) if self.prices else None
                cost = None if price is None else price.compute_cost(usage)
                self._dearest = max(self._dearest, cost or 0.0)
                tokens = {name: usage.get(name, 0) for name in ("input_tokens", "output_tokens")}
                self._add(model, replies=int(replied), cost=cost, **tokens)
        if replied and usage is None and self.max_cost is not None:
            raise untold_reply(model)

    def add_sent(self, model: str, parameters: dict[str, Any]) -> bool:
        """Record the parameters that a call sends, each set once; return whether they are new."""
        with self._lock:
            is_new = model not in self._spent or parameters not in self._spent[model].sent
            if is_new:
                self._add(model, sent=(parameters,))
            return is_new

    def add(self, model: str, usage: ProviderUsage) -> None:
        """Add to a model's usage, such as a wait or a cached reply."""
        with self._lock:
            self._add(model, **dict(usage))

    def by_model(self) -> dict[str, ProviderUsage]:
        """Return the usage of each model so far."""
        with self._lock:
            return dict(self._spent)

    def total(self) -> ProviderUsage:
        """Return the usage of all models so far."""
        return reduce(ProviderUsage.plus, self.by_model().values(), ProviderUsage())

    def _add(self, model: str, **usage: Any) -> None:
        added = ProviderUsage(**usage)
        self._spent[model] = self._spent.get(model, ProviderUsage()).plus(added)
        self._requests += added.requests
        self._cost = round(self._cost + (added.cost or 0.0), 9)
