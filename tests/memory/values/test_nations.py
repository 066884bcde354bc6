"""The table of countries and their people."""

import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from emend.memory.values import nations


def test_threads_that_begin_together_read_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    loads = tomllib.loads

    def slow_loads(text: str) -> dict[str, Any]:
        reads.append(threading.current_thread().name)
        threading.Event().wait(0.02)  # so that all threads ask before the first has read
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", slow_loads)
    nations._nations.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        words = list(pool.map(nations.nation_words, ["Denmark"] * 8))
    assert len(reads) == 1
    assert words == [("Kingdom of Denmark", "Danish", "Dane")] * 8
