import gc
import threading
import time
import weakref
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emend.agents.local import batching
from emend.agents.local.batching import Batcher, pack
from emend.memory.errors import BadData, ModelError

OTHERS: set[threading.Thread] = set()
"""Workers of models that other tests still hold."""


@pytest.fixture(autouse=True)
def _others():
    OTHERS.update(threading.enumerate())
    yield
    OTHERS.clear()


def workers():
    found = set(threading.enumerate()) - OTHERS
    return [thread for thread in found if thread.name.startswith("emend-batch")]


def echo(key: Hashable, asked: list[int]) -> list[int]:
    return asked


def name_each(key: Hashable, asked: list[int]) -> list[tuple[Hashable, int]]:
    return [(key, one) for one in asked]


def say_nothing(key: Hashable, asked: list[int]) -> list[int]:
    return []


class Gathered:
    """Doubles numbers; the first batch waits until it is told to go on; keeps the batches it ran."""

    def __init__(self, limit=64):
        self.go, self.started, self.batches = threading.Event(), threading.Event(), []
        self.begun, self.pause = [], 0.0
        self.batcher = Batcher(self.run, limit)

    def run(self, key, asked):
        self.batches.append((key, list(asked)))
        self.begun.append(time.perf_counter())
        self.started.set()
        self.go.wait(60)
        time.sleep(self.pause)
        if -1 in asked:
            raise BadData("-1 is asked")
        return [2 * number for number in asked]

    def ask_behind_one(self, calls):
        """Asks all of `calls` while a first one is under way; their futures, in order."""
        with ThreadPoolExecutor(len(calls) + 1) as pool:
            first = pool.submit(self.batcher.ask, "a", 0)
            self.started.wait(60)
            futures = []
            for key, number in calls:
                futures.append(pool.submit(self.batcher.ask, key, number))
                while len(self.batcher._waiting) < len(futures):
                    time.sleep(0.001)
            self.go.set()
        assert first.result() == 0
        return futures


@pytest.fixture
def gathered():
    """Makes `Gathered`s, and ends them."""
    made = []

    def make(limit=64):
        made.append(Gathered(limit))
        return made[-1]

    yield make
    for one in made:
        one.go.set()
        one.batcher.close()
    assert not workers()


def test_waiting_calls_run_together_by_key(gathered):
    case = gathered()
    futures = case.ask_behind_one([("a", 1), ("b", 2), ("a", 3)])
    assert [future.result() for future in futures] == [2, 4, 6]
    assert case.batches == [("a", [0]), ("a", [1, 3]), ("b", [2])]


def test_no_batch_exceeds_the_limit(gathered):
    case = gathered(limit=2)
    futures = case.ask_behind_one([("a", number) for number in range(1, 6)])
    assert [future.result() for future in futures] == [2, 4, 6, 8, 10]
    assert [len(asked) for _, asked in case.batches] == [1, 2, 2, 1]


def test_an_error_reaches_only_the_call_that_caused_it(gathered):
    futures = gathered().ask_behind_one([("a", 1), ("a", -1), ("a", 3)])
    assert (futures[0].result(), futures[2].result()) == (2, 6)
    with pytest.raises(BadData, match="-1 is asked"):
        futures[1].result()


def test_a_missing_answer_is_an_error_and_no_hang():
    batcher = Batcher(say_nothing, 4)
    with pytest.raises(ValueError, match="zip"):
        batcher.ask("a", 1)
    batcher.close()


def test_a_single_call_does_not_wait_for_others():
    batcher = Batcher(echo, 64)
    batcher.ask("a", 0)
    took = []
    for number in range(100):
        began = time.perf_counter()
        batcher.ask("a", number)
        took.append(time.perf_counter() - began)
    assert sorted(took)[50] < 0.005  # the middle one: a busy machine may hold up some
    batcher.close()


def test_a_batch_waits_for_the_next_calls_of_its_callers(gathered, monkeypatch):
    """Four callers ask again and again, each with work of its own in between, and their calls stay together."""
    monkeypatch.setattr(batching, "LINGER", 5.0)  # a busy machine may keep one of them longer than half a batch
    case = gathered()
    case.pause = 0.1
    case.go.set()
    start = threading.Barrier(4)

    def caller(number):
        start.wait(60)
        for turn in range(4):
            time.sleep(0.005 * number)
            assert case.batcher.ask("a", 10 * number + turn) == 2 * (10 * number + turn)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(caller, range(4)))
    sizes = [len(asked) for _, asked in case.batches]
    assert sum(sizes) == 16 and sizes.count(4) >= 2 and len(sizes) <= 7


@pytest.mark.slow
def test_callers_that_stay_away_are_waited_for_once_and_half_as_long_as_their_batch_took(gathered):
    case = gathered()
    case.pause = 1.2
    case.ask_behind_one([("a", number) for number in range(1, 9)])
    waited = []
    for number in (9, 10):
        asked = time.perf_counter()
        assert case.batcher.ask("a", number) == 2 * number
        waited.append(case.begun[-1] - asked)
    assert [len(asked) for _, asked in case.batches] == [1, 8, 1, 1]
    assert waited[1] < 0.59 < waited[0] < 1.2


def test_closed_batcher_refuses_and_leaves_no_thread():
    batcher = Batcher(echo, 4)
    assert batcher.ask("a", 1) == 1
    batcher.close()
    batcher.close()
    assert not workers()
    with pytest.raises(ModelError, match="closed"):
        batcher.ask("a", 2)


def test_garbage_collected_batcher_leaves_no_thread():
    batcher = Batcher(echo, 4)
    batcher.ask("a", 1)
    seen = weakref.ref(batcher)
    del batcher
    gc.collect()
    assert seen() is None
    ends = time.monotonic() + 60
    while workers() and time.monotonic() < ends:
        time.sleep(0.01)
    assert not workers()


def test_many_threads_each_get_their_own_answer():
    batcher = Batcher(name_each, 8)
    with ThreadPoolExecutor(16) as pool:
        calls = [(number % 3, number) for number in range(500)]
        assert list(pool.map(lambda call: batcher.ask(*call), calls)) == calls
    batcher.close()


row_lengths = st.lists(st.integers(1, 50), max_size=40)


class Counting:
    """Counts each call's number down in steps, and takes more calls between two steps; keeps who was under way."""

    def __init__(self):
        self.under_way, self.step, self.stepped = [], threading.Semaphore(0), threading.Semaphore(0)
        self.batcher = Batcher(name_each, 3, {"count": self.run})

    def run(self, requests, next_requests):
        left = dict(enumerate(requests))
        places = len(left)
        while left:
            self.under_way.append(sorted(left))
            self.stepped.release()
            assert self.step.acquire(timeout=60)
            if -1 in left.values():
                raise BadData("-1 is asked")
            left = {place: number - 1 for place, number in left.items()}
            for place in [place for place, number in left.items() if number == 0]:
                del left[place]
                yield place, f"place {place}"
            for number in next_requests():
                left[places] = number
                places += 1


@pytest.fixture
def counting():
    case = Counting()
    yield case
    case.step.release(1000)
    case.batcher.close()


def wait_for_calls(batcher, number):
    ends = time.monotonic() + 10
    while len(batcher._waiting) < number and time.monotonic() < ends:
        time.sleep(0.001)
    assert len(batcher._waiting) == number


def test_calls_join_a_running_batch_up_to_the_limit_and_other_keys_run_between_two_steps(counting):
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(counting.batcher.ask, "count", 3)
        assert counting.stepped.acquire(timeout=60)
        others = [pool.submit(counting.batcher.ask, "count", 2) for _ in range(3)]
        wait_for_calls(counting.batcher, 3)
        counting.step.release()
        assert counting.stepped.acquire(timeout=60)  # two have joined, one waits
        between = pool.submit(counting.batcher.ask, "other", 7)
        wait_for_calls(counting.batcher, 2)
        counting.step.release(10)
        assert first.result(60) == "place 0"
        assert between.result(60) == ("other", 7)
        assert sorted(each.result(60) for each in others) == ["place 1", "place 2", "place 3"]
    assert counting.under_way == [[0], [0, 1, 2], [0, 1, 2], [3], [3]]


def test_an_error_of_a_batch_that_others_have_joined_reaches_only_its_own_call(counting):
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(counting.batcher.ask, "count", 3)
        assert counting.stepped.acquire(timeout=60)
        bad = pool.submit(counting.batcher.ask, "count", -1)
        wait_for_calls(counting.batcher, 1)
        counting.step.release(20)
        assert first.result(60) == "place 0"
        with pytest.raises(BadData, match="-1 is asked"):
            bad.result(60)
    assert counting.under_way[:2] == [[0], [0, 1]]


def test_a_call_that_a_joined_batch_forgets_gets_an_error():
    batcher = Batcher(name_each, 3, {"count": lambda requests, next_requests: iter(())})
    with pytest.raises(ModelError, match="no result"):
        batcher.ask("count", 1)
    batcher.close()


@given(row_lengths, st.integers(1, 200))
def test_pack_puts_every_row_into_one_batch_within_the_budget(lengths, budget):
    batches = pack(lengths, budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget
