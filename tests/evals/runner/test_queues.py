"""A queue of tasks runs no further ahead than its bound, and hands on what a task raises."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from emend.evals.runner.queues import TaskQueue


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
