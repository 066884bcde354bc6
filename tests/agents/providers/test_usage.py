from types import SimpleNamespace
from typing import Any, cast

import pytest
from tenacity import RetryCallState

from emend.agents.providers.policy import Backoff, CallPolicy
from emend.agents.providers.prices import Price, Prices
from emend.agents.providers.usage import Ledger, ProviderUsage
from emend.memory.errors import BadSettings, BudgetReached, ModelError, ModelUnreachable, RateLimited

FILE = """
currency = "EUR"
[models."openai:small"]
input = 0.5
output = 2
cache_read = 0.1
"""


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_cost_is_per_million_tokens_and_knows_the_providers_cache(prices):
    price = Prices.read(prices).require("openai:small@http://127.0.0.1/v1")
    assert price.compute_cost({"input_tokens": 1_000_000, "output_tokens": 500_000}) == pytest.approx(1.5)
    told = {"input_tokens": 1_000_000, "output_tokens": 0, "input_token_details": {"cache_read": 900_000}}
    assert price.compute_cost(told) == pytest.approx(0.05 + 0.09)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[models", "cannot be read"),
        ("x = " + "[" * 9_000, "cannot be read"),
        ('[models."x"]\ninput = 1', "models.x.output"),
        ('[models."x"]\ninput = "a"\noutput = 1', "models.x.input"),
        ("price = 1", "field 'price'"),
    ],
)
def test_a_wrong_prices_file_says_where(tmp_path, text, told):
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadSettings, match=told):
        Prices.read(tmp_path / "p.toml")


def test_a_limit_of_cost_needs_a_price_of_the_model(prices):
    with pytest.raises(BadSettings, match="give --prices"):
        Ledger(max_cost=1.0)
    with pytest.raises(BadSettings, match="did you mean 'openai:small'"):
        Ledger(Prices.read(prices), max_cost=1.0).require_price("openai:smal")


def test_spending_stops_before_the_limit_when_replies_cost_alike(prices):
    ledger = Ledger(Prices.read(prices), max_cost=1.0)
    told = {"input_tokens": 200_000, "output_tokens": 100_000}  # 0.3
    with pytest.raises(BudgetReached, match="may exceed --max-cost 1"):
        for _ in range(9):
            ledger.start_call("openai:small")
            ledger.end_call("openai:small", told, replied=True)
    assert ledger.total().cost == pytest.approx(0.9) and ledger.total().requests == 3


def test_calls_under_way_are_taken_to_cost_as_much_as_the_dearest(prices):
    ledger = Ledger(Prices.read(prices), max_cost=1.0)
    ledger.start_call("openai:small")
    ledger.end_call("openai:small", {"input_tokens": 200_000, "output_tokens": 100_000}, replied=True)
    ledger.start_call("openai:small")
    ledger.start_call("openai:small")
    with pytest.raises(BudgetReached):
        ledger.start_call("openai:small")


def test_a_reply_that_does_not_tell_its_tokens_ends_a_limited_run_and_is_counted_in_another(prices):
    free = Ledger(Prices.read(prices))
    free.start_call("openai:small")
    free.end_call("openai:small", None, replied=True)
    assert (free.total().untold, free.total().cost) == (1, None)
    limited = Ledger(Prices.read(prices), max_cost=1.0)
    limited.start_call("openai:small")
    with pytest.raises(BudgetReached, match="does not report its tokens"):
        limited.end_call("openai:small", None, replied=True)


@pytest.mark.parametrize("limits", [{"max_calls": -1}, {"max_cost": float("nan"), "prices": Prices()}])
def test_impossible_limit(limits):
    with pytest.raises(BadSettings, match="give 0 or more"):
        Ledger(**limits)


def test_sums_add_up():
    one = ProviderUsage(requests=2, replies=1, retries=1, input_tokens=5, cost=0.5, sent=({"temperature": 0},))
    two = ProviderUsage(requests=1, cached=1, sent=({"temperature": 0}, {"temperature": 1}))
    both = one.plus(two)
    assert (both.requests, both.cached, both.cost, len(both.sent)) == (3, 1, 0.5, 2)
    assert ProviderUsage.model_validate_json(both.model_dump_json()) == both


def state_of(error: ModelError, attempt: int, waited: float = 0.0) -> RetryCallState:
    """The state that tenacity has after an attempt that failed."""
    state = RetryCallState(cast(Any, None), None, (), {})
    state.attempt_number, state.idle_for = attempt, waited
    state.set_exception((type(error), error, None))
    return state


def wait_after(backoff: Backoff, attempt: int, waited: float = 0.0, pause: float | None = None, limited: bool = False):
    """Seconds before the next attempt; None where there is none."""
    error = RateLimited("x") if limited else ModelUnreachable("x")
    error.__cause__ = OSError() if pause is None else Paused(pause)
    state = state_of(error, attempt, waited)
    state.upcoming_sleep = backoff.wait(state)
    return None if backoff.stop(state) else state.upcoming_sleep


class Paused(Exception):
    """Error of a client whose response has a header."""

    def __init__(self, seconds: float) -> None:
        self.response = SimpleNamespace(headers={"retry-after": str(seconds)})


def test_waits_grow_are_jittered_and_bounded():
    backoff = Backoff(attempts=6, first=1.0, longest=5.0, total=12.0)
    steps = [{wait_after(backoff, attempt) for _ in range(50)} for attempt in range(1, 6)]
    for step, top in zip(steps, (1, 2, 4, 5, 5), strict=True):
        assert len(step) > 1 and all(wait is not None and top / 2 <= wait <= top for wait in step)
    assert wait_after(backoff, 6) is None
    assert wait_after(backoff, 1, waited=11.5) is None
    paused = wait_after(backoff, 1, pause=9.0)
    assert paused is not None and 9.0 <= paused <= 9.25
    assert wait_after(backoff, 1, pause=13.0) is None


def test_a_limit_per_minute_is_waited_out_however_often_that_takes():
    backoff = Backoff()
    for pause in (None, 0.0):
        attempt, waited = 1, 0.0
        while (wait := wait_after(backoff, attempt, waited, pause, limited=True)) is not None:
            attempt, waited = attempt + 1, waited + wait
        assert 60.0 <= waited <= backoff.total and attempt >= backoff.attempts
    assert wait_after(backoff, backoff.attempts, 1.0) is None  # a server that fails is another matter
    assert wait_after(backoff, 1, 0.0, 432.0, limited=True) is None
    assert wait_after(backoff, 5000, 1.0, limited=True) is not None


def test_the_default_policy_has_no_limits():
    policy = CallPolicy()
    assert policy.limiter.pace is None and policy.cache is None and policy.ledger.max_calls is None


@pytest.mark.parametrize("name", ["cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"])
def test_what_is_written_to_the_provider_s_cache_has_its_price(name):
    price = Price(input=1, output=2, cache_write=1.25)
    details = {"cache_creation": 0, "cache_read": 0} | {name: 1_000_000}
    assert price.compute_cost({"input_tokens": 1_000_000, "input_token_details": details}) == pytest.approx(1.25)
