"""Kills the MCP server of a memory while it works, again and again, and checks that nothing is lost or doubled.

    python scripts/benchmarks/kill_mcp_server.py [--kills 100] [--seed 0]

A client remembers, updates and forgets numbered facts, each call with an id of its own. SIGKILL comes a random moment
after a call was sent; the server is started again, and the client repeats the call. In the end each call must be in
the journal once, and the memory must hold what the calls say.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.evals.streams.mcp_server import OPERATION_ID  # noqa: E402
from emend.memory.facts.fact_memory import FactMemory  # noqa: E402

LONGEST = 0.004
"""Seconds between a call and its kill, at most: about twice the time that a call takes."""


class Outcome(NamedTuple):
    """Calls, kills, calls that were done although their server was killed, and what is wrong in the end."""

    calls: int
    kills: int
    done_when_killed: int
    wrong: list[str]


class Client:
    """Speaks JSON-RPC with a server on its standard streams, and starts another one when that is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._start()

    def _start(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-m", "emend", "mcp", "--memory", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        )
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "kill", "version": "1"}}
        assert self.request("initialize", client) is not None
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any], kill_after: float | None = None) -> Any:
        """The result; None if the server ended before it answered."""
        self._number += 1
        timer = threading.Timer(kill_after, self.server.kill) if kill_after is not None else None
        self._send({"id": self._number, "method": method, "params": params})
        if timer:
            timer.start()
        assert self.server.stdout
        line = self.server.stdout.readline()
        if timer:
            timer.join()
            self.server.wait()
            self._close()
            self._start()
        return json.loads(line)["result"] if line.endswith(b"\n") else None

    def call(self, name: str, arguments: dict[str, Any], id_: str, kill_after: float | None = None) -> Any:
        """The result of a tool as data; None if the server ended before it answered."""
        params = {"name": name, "arguments": arguments, "_meta": {OPERATION_ID: id_}}
        result = self.request("tools/call", params, kill_after)
        if result is None:
            return None
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    def close(self) -> None:
        """End the server."""
        self._close()
        self.server.wait(20)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.server.stdin.flush()

    def _close(self) -> None:
        assert self.server.stdin and self.server.stdout
        self.server.stdin.close()
        self.server.stdout.close()


def storm(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill the server so many times during twice as many calls."""
    draw, client = random.Random(seed), Client(folder)
    tasks: list[str] = []
    done_when_killed = calls = 0
    killed = set(draw.sample(range(2 * kills), kills))
    for calls in range(2 * kills):
        if draw.random() < 0.2 and tasks:
            name, arguments = "update", {"relation": "tasks", "replaces": tasks.pop(draw.randrange(len(tasks)))}
        else:
            tasks.append(f"task {calls}")
            name, arguments = "remember", {"relation": "tasks", "object": tasks[-1]}
        arguments["subject"] = "Ann"
        wait = draw.uniform(0, LONGEST) if calls in killed else None
        result = client.call(name, arguments, f"call {calls}", wait)
        if wait is not None:
            result = client.call(name, arguments, f"call {calls}")
            done_when_killed += bool(result.get("repeated"))
        assert result
    client.close()
    return Outcome(calls + 1, kills, done_when_killed, check(folder, calls + 1, tasks))


def check(folder: Path, calls: int, tasks: list[str]) -> list[str]:
    """The ways in which the memory differs from what the calls say."""
    with FactMemory(folder) as memory:
        ids = Counter(entry.operation_id for entry in memory.journal())
        held = Counter(fact.object for fact in memory.lookup("Ann", "tasks").facts)
    wrong = [f"call {n} was done {ids[f'call {n}']} times" for n in range(calls) if ids[f"call {n}"] != 1]
    if held != Counter(tasks):
        wrong.append(f"lost {sorted(Counter(tasks) - held)}, too many {sorted(held - Counter(tasks))}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = storm(Path(folder), arguments.kills, arguments.seed)
    print(f"{outcome.calls} calls, {outcome.kills} kills, {outcome.done_when_killed} calls done when killed")
    print("\n".join(outcome.wrong) or "nothing lost, nothing doubled")
    sys.exit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
