"""What was freed in pieces goes back to the system."""

import platform
import subprocess
import sys

import pytest

# In a process of its own: what a heap of hundreds of other tests looks like decides how much of it is resident.
PIECES = """
from pathlib import Path
from emend.agents.scope.training_loop import trim_malloc

def held():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

blocks = [bytes([k % 251 + 1]) * 100_000 for k in range(3000)]  # written to, so that every page is held
kept = blocks[::50]  # what lies between them is freed, and cannot be given back from the end
full = held()
del blocks
freed = held()
trim_malloc()
assert len(kept) == 60
print(full - freed, full - held())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed")
def test_a_fragmented_heap_shrinks():
    run = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=True, timeout=120)
    before, after = map(int, run.stdout.split())
    assert before < 30_000_000 and after > 200_000_000  # of 294 MB: next to nothing by itself, nearly all by asking
