import random
import threading

import pytest

from emend.agents.providers.rate_limit import ALL, RECOVERY, SLOWEST, UNLIMITED, RateLimiter
from emend.memory.errors import BadSettings


class Clock:
    """Time that passes only while one waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def limiter(**limits):
    clock = Clock()
    return RateLimiter(**limits, clock=clock.read, sleep=clock.sleep), clock


def refuse(paced, times):
    for _ in range(times):
        paced.slow_down(paced.acquire(1))


def most_in_a_minute(times, sizes=None):
    sizes = sizes or [1] * len(times)
    return max(
        sum(size for at, size in zip(times, sizes, strict=True) if start <= at < start + 59.999) for start in times
    )


def test_no_limit_waits_for_nothing():
    free, clock = limiter()
    assert {free.acquire(10_000) for _ in range(500)} == {clock.now} and free.pace is None


def test_no_minute_has_more_calls_than_it_may():
    paced, _ = limiter(rpm=30)
    times = [paced.acquire(1) for _ in range(100)]
    assert most_in_a_minute(times) == 30
    assert times[-1] - times[0] == pytest.approx(99 * 2.0)  # and none is wasted


def test_an_idle_time_earns_no_burst():
    paced, clock = limiter(rpm=60)
    paced.acquire(1)
    clock.now += 600
    times = [paced.acquire(1) for _ in range(10)]
    assert times[-1] - times[0] == pytest.approx(9.0)


def test_no_minute_has_more_tokens_than_it_may():
    paced, _ = limiter(tpm=1000)
    sizes = [100, 400, 50, 250] * 8
    times = [paced.acquire(size) for size in sizes]
    assert most_in_a_minute(times, sizes) <= 1000 + max(sizes)
    assert times[-1] - times[0] == pytest.approx(sum(sizes[:-1]) / 1000 * 60)


def test_what_a_reply_took_beyond_the_estimate_is_waited_for():
    paced, clock = limiter(tpm=600)
    began = paced.acquire(10)
    paced.correct(10, 110)
    assert paced.acquire(1) - began == pytest.approx(11.0)


def test_complaints_about_calls_under_way_together_halve_the_pace_once():
    paced, clock = limiter(rpm=120)
    sent = [paced.acquire(1) for _ in range(8)]
    clock.now += 0.1
    for at in sent:
        paced.slow_down(at)
    assert paced.pace == pytest.approx(60)
    paced.slow_down(paced.acquire(1))
    assert paced.pace == pytest.approx(30, rel=0.1)


def test_the_pace_recovers_and_stops_at_the_limit():
    paced, clock = limiter(rpm=120, tpm=1000)
    refuse(paced, ALL)
    clock.now += RECOVERY / 2
    assert 60 < paced.pace < 120
    clock.now += 100 * RECOVERY
    assert paced.pace == 120


def test_a_pause_holds_for_all():
    paced, clock = limiter()
    began = paced.acquire(1)
    paced.slow_down(began, pause=7.0)
    assert paced.acquire(1) - began == pytest.approx(7.0)


@pytest.mark.parametrize(("rpm", "slowest", "fastest"), [(None, UNLIMITED / SLOWEST, 15.0), (800.0, 100.0, 220.0)])
def test_endless_complaints_never_stop_the_run(rpm, slowest, fastest):
    paced, clock = limiter(rpm=rpm)
    for _ in range(40):
        paced.slow_down(paced.acquire(1))
        clock.now += 0.01
    assert slowest <= paced.pace <= fastest


def test_the_first_complaints_without_a_limit_leave_ten_calls_a_second_for_a_while():
    paced, clock = limiter()
    refuse(paced, ALL - 1)
    assert paced.pace is None
    refuse(paced, 1)
    assert paced.pace == pytest.approx(UNLIMITED / 2)
    clock.now += 2 * RECOVERY
    assert paced.pace is None


def test_complaints_about_more_than_ten_calls_a_second_halve_the_pace_at_which_they_came():
    paced, clock = limiter()
    for _ in range(300):
        paced.acquire(1)
        clock.now += 0.01
    refuse(paced, ALL)
    assert paced.pace == pytest.approx(60 / 0.01 / 2, rel=0.1)


def test_a_provider_of_ten_calls_a_minute_refuses_few_more():
    paced, clock = limiter()
    passed: list[float] = []
    refused = 0
    while len(passed) < 60:
        sent = paced.acquire(1)
        if len([at for at in passed if at > sent - 60.0]) < 10:
            passed.append(sent)
            paced.passed()
        else:
            refused += 1
            paced.slow_down(sent)
        clock.now += 0.05
    assert refused < 2 * len(passed)


def test_refusals_at_random_leave_most_of_the_throughput():
    """A third of the calls is refused, whatever the pace: lowering it would only lose more."""
    paced, clock = limiter()
    drawn, passed = random.Random(4), 0
    while clock.now < 1100.0:
        sent = paced.acquire(1)
        clock.now += 0.05
        if drawn.random() < 0.3:
            paced.slow_down(sent, pause=0.05)
        else:
            paced.passed()
            passed += 1
    assert passed > 0.8 * 0.7 * 100.0 / 0.05


def test_a_short_pause_of_one_call_does_not_hold_the_others():
    paced, clock = limiter()
    for _ in range(9):
        paced.acquire(1)
        paced.passed()
    began = paced.acquire(1)
    paced.slow_down(began, pause=0.5)
    assert paced.acquire(1) == began and paced.pace is None
    paced.slow_down(began, pause=7.0)
    assert paced.acquire(1) - began == pytest.approx(7.0)


def test_many_threads_share_one_limit():
    paced = RateLimiter(rpm=6000)
    times: list[float] = []
    threads = [threading.Thread(target=lambda: times.extend(paced.acquire(1) for _ in range(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == 40 and max(times) - min(times) >= 39 * 0.01 - 1e-6


@pytest.mark.parametrize("limits", [{"rpm": 0}, {"tpm": -5}, {"rpm": float("nan")}])
def test_impossible_limit(limits):
    with pytest.raises(BadSettings, match="give a number above 0"):
        RateLimiter(**limits)


def test_less_than_one_call_a_minute_is_a_limit():
    assert RateLimiter(rpm=0.5).rpm == 0.5
