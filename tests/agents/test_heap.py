"""What was freed in pieces goes back to the system."""

import platform
from pathlib import Path

import pytest

from emend.agents.heap import give_back


def held() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed")
def test_a_heap_in_pieces_shrinks():
    blocks = [bytes(100_000) for _ in range(3000)]
    kept = blocks[::50]  # what lies between them is freed, and cannot be given back from the end
    full = held()
    del blocks
    give_back()
    assert len(kept) == 60 and full - held() > 150_000_000
