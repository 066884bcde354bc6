"""Script that runs the command of an MCP server and ends every process that the command leaves.

    python mcp_supervisor.py COMMAND [ARGUMENT]...

It imports nothing of Emend, so that it starts fast. On Linux it adopts orphaned descendants of
whatever process group and session, and ends with its parent; elsewhere it ends its process group.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Options of Linux's prctl(2).
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Time that the server gets to end after SIGTERM, and time limit for ending its descendants. The
# MCP SDK kills the process group two seconds after SIGTERM.
STOP_SECONDS, SWEEP_SECONDS = 0.75, 1.0


def main(command: list[str]) -> None:
    """Run the command on this process's standard streams, then end what it has left."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    server = None
    try:
        server = subprocess.Popen(command)
        server.wait()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if server is not None:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(STOP_SECONDS)
        end_descendants()


def end_descendants() -> None:
    """Kill this process's children until there are none, as orphans become its children, and then
    its process group if it leads one, itself included.
    """
    end = time.monotonic() + SWEEP_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < end:
            for pid in children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


def children() -> Iterator[int]:
    """Yield the ids of this process's children; nothing where there is no /proc."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # the name before ")" may contain spaces
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                yield int(path.parent.name)


if __name__ == "__main__":
    main(sys.argv[1:])
