"""A memory of facts on a full disk: read as before, written to again once there is room."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emend.memory.errors import MemoryUnavailable
from emend.memory.facts.fact_memory import FactMemory

pytestmark = pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system limits no files")


@contextmanager
def no_room() -> Iterator[None]:
    """Context in which no file grows beyond a byte, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_memory_is_read_on_a_full_disk_and_written_to_again_once_there_is_room(tmp_path: Path):
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "lives in", "Bern")
    with no_room(), FactMemory(tmp_path) as memory:
        assert [fact.object for fact in memory.lookup("Ann", "home city").facts] == ["Bern"]
        with pytest.raises(MemoryUnavailable, match="disk is not full"):
            memory.remember("Ann", "lives in", "Brask")
        assert [fact.object for fact in memory.lookup("Ann", "home city").facts] == ["Bern"]
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "lives in", "Brask")
        assert [fact.object for fact in memory.lookup("Ann", "home city").facts] == ["Brask"]


def test_a_new_memory_on_a_full_disk_is_an_error_with_the_remedy(tmp_path: Path):
    with no_room(), pytest.raises(MemoryUnavailable, match="disk is not full"):
        FactMemory(tmp_path)
