"""Counts what models are asked and what that costs, and stops before a limit is passed."""

import threading
from typing import Any

from emend.agents.providers.prices import Prices
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, BudgetReached


class Spent(FrozenModel):
    """What was spent on one model, or on all.

    `requests` counts every time a provider was asked, also in vain; `replies` those that came, `retries` those asked
    again, `cached` the replies that were kept from earlier and cost nothing. `untold` replies did not say how many
    tokens they took, so that tokens and `cost` leave them out; `cost` is None without a price. `sent` holds the
    parameters that calls were really sent with.
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

    def plus(self, other: "Spent") -> "Spent":
        """The sum; a cost that one of them does not know is that of the other alone."""
        told: dict[str, Any] = {}
        for name in ("requests", "replies", "retries", "cached", "untold", "input_tokens", "output_tokens"):
            told[name] = getattr(self, name) + getattr(other, name)
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        told["seconds_waited"] = round(self.seconds_waited + other.seconds_waited, 3)
        sent = (*self.sent, *(one for one in other.sent if one not in self.sent))
        return Spent(**told, cost=round(sum(costs), 9) if costs else None, sent=sent)


class Ledger:
    """Of all models that share it; safe for many threads.

    Args:
        prices: what tokens cost.
        max_cost: in the currency of the prices; replies under way when it is reached may go beyond it.
        max_calls: requests at most, those asked again included; never passed.

    Raises:
        BadSettings: a limit below 0, or a limit of cost without prices.
    """

    def __init__(
        self, prices: Prices | None = None, max_cost: float | None = None, max_calls: int | None = None
    ) -> None:
        for name, limit in (("max-cost", max_cost), ("max-calls", max_calls)):
            if limit is not None and not limit >= 0:
                raise BadSettings(f"--{name} is {limit}: give 0 or more.")
        if max_cost is not None and prices is None:
            raise BadSettings("--max-cost needs to know what tokens cost: give --prices FILE.")
        self.prices, self.max_cost, self.max_calls = prices, max_cost, max_calls
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}
        self._under_way, self._dearest = 0, 0.0

    def admit(self, model: str) -> None:
        """Raises BadSettings where a limit of cost stands and the model has no price."""
        if self.max_cost is not None and self.prices is not None:
            self.prices.need(model)

    def begin(self, model: str, again: bool = False) -> None:
        """A provider is about to be asked.

        Raises:
            BudgetReached: it may not be; nothing is counted.
        """
        with self._lock:
            total = self._total()
            if self.max_calls is not None and total.requests >= self.max_calls:
                raise BudgetReached(
                    f"{total.requests} calls were made, which --max-calls {self.max_calls} allows: what is finished "
                    "is kept. Go on with the same command, or emend resume for a run, and another --max-calls, which "
                    "counts anew."
                )
            # What is under way is taken to cost as much as the dearest reply so far.
            cost = (total.cost or 0.0) + self._dearest * (self._under_way + 1)
            if self.max_cost is not None and (cost > self.max_cost or not self.max_cost):
                raise BudgetReached(
                    f"{total.cost or 0.0:.4f} was spent, and another call may pass --max-cost {self.max_cost:g}: what "
                    "is finished is kept. Go on with the same command, or emend resume for a run, and another "
                    "--max-cost, which counts anew."
                )
            self._under_way += 1
            self._add(model, Spent(requests=1, retries=int(again)))

    def end(self, model: str, told: dict[str, Any] | None, replied: bool) -> None:
        """The provider has been asked.

        Args:
            model: which was asked.
            told: the reply's `usage_metadata`, also of a reply that is no use; None where nothing is said.
            replied: whether a reply came.

        Raises:
            BudgetReached: a limit of cost stands, and the reply does not tell its tokens.
        """
        with self._lock:
            self._under_way -= 1
            if told is None:
                self._add(model, Spent(replies=int(replied), untold=int(replied)))
            else:
                price = self.prices.find(model) if self.prices else None
                cost = None if price is None else price.of(told)
                self._dearest = max(self._dearest, cost or 0.0)
                tokens = {name: told.get(name, 0) for name in ("input_tokens", "output_tokens")}
                self._add(model, Spent(replies=int(replied), cost=cost, **tokens))
        if replied and told is None and self.max_cost is not None:
            raise BudgetReached(
                f"'{model}' does not tell how many tokens a reply took, so that --max-cost cannot hold: "
                "resume with --max-calls instead."
            )

    def kept(self, model: str) -> None:
        """A reply from earlier was taken."""
        self.note(model, Spent(cached=1))

    def note_sent(self, model: str, parameters: dict[str, Any]) -> None:
        """Calls are sent with these parameters; each set of them is kept once."""
        with self._lock:
            known = self._spent.get(model)
            if known is None or parameters not in known.sent:
                self._add(model, Spent(sent=(parameters,)))

    def note(self, model: str, more: Spent) -> None:
        """Count something besides, such as a wait."""
        with self._lock:
            self._add(model, more)

    def by_model(self) -> dict[str, Spent]:
        """What was spent on each model so far."""
        with self._lock:
            return dict(self._spent)

    def total(self) -> Spent:
        """What was spent in all so far."""
        with self._lock:
            return self._total()

    def _add(self, model: str, more: Spent) -> None:
        self._spent[model] = self._spent.get(model, Spent()).plus(more)

    def _total(self) -> Spent:
        total = Spent()
        for spent in self._spent.values():
            total = total.plus(spent)
        return total
