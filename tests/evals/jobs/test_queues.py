"""A queue of tasks runs no further ahead than its bound, and hands on what a task raises."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial

import pytest

from emend.evals.jobs.queues import TaskQueue, map_in_order


def test_no_more_tasks_than_the_bound_are_under_way_and_an_error_comes_out():
    running: list[int] = []
    most: list[int] = []

    def work(place: int) -> None:
        running.append(place)
        most.append(len(running))
        time.sleep(0.01)
        running.remove(place)

    with ThreadPoolExecutor(4) as pool:
        queue = TaskQueue(pool, 2)
        for place in range(6):
            queue.put(partial(work, place))
        queue.drain()
        assert max(most) == 2 and len(most) == 6
        queue.put(lambda: [][1])
        with pytest.raises(IndexError):
            queue.drain()


def test_without_a_pool_a_task_is_done_at_once():
    done: list[int] = []
    TaskQueue().put(lambda: done.append(1))
    assert done == [1]


def test_results_come_in_the_order_of_the_items_and_the_first_error_in_its_place():
    started: list[int] = []

    def work(place: int) -> int:
        started.append(place)
        time.sleep(0.02 * (3 - place % 3))
        if place == 4:
            raise ValueError(place)
        return place * place

    for at_once in (1, 3):
        started.clear()
        results = map_in_order(work, range(40), at_once)
        assert [next(results) for _ in range(4)] == [0, 1, 4, 9]
        with pytest.raises(ValueError, match="4"):
            next(results)
        assert len(started) < 12, "items that had not begun are left out"


def test_threads_see_the_callers_context():
    place: ContextVar[str] = ContextVar("place", default="nowhere")
    token = place.set("here")
    assert list(map_in_order(lambda _: place.get(), range(3), 3)) == ["here"] * 3
    place.reset(token)
