"""A bad MCP server on standard streams.

    python -m scripts.nightly.tool_server MODE PIDS

It writes its process id, and those of its children, to the file PIDS.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def nested(depth: int) -> dict[str, Any]:
    """Return a schema of objects in objects."""
    schema = OBJECT
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


LISTS: dict[str, list[dict[str, Any]]] = {
    "100,000 tools": [{"name": f"t{number}", "inputSchema": OBJECT} for number in range(100_000)],
    "one name often": [{"name": "same", "inputSchema": OBJECT}] * 9,
    "odd names": [
        {"name": name, "inputSchema": OBJECT} for name in ("", "../x", "__class__", "a b", "\x1b[2J", "x" * 99)
    ],
    "odd schemas": [
        {"name": f"t{number}", "inputSchema": schema}
        for number, schema in enumerate(
            (
                {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
                {"type": "object", "$ref": "file:///etc/passwd"},
                {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}},
                {"type": "object", "required": ["__class__"]},
                {"type": "object", "properties": 7},
                {},
            )
        )
    ],
    "long description": [{"name": "t", "description": "\x1b]0;x\x07 </result>" * 500_000, "inputSchema": OBJECT}],
    "no list": [],
    "schemas in a circle": [
        {
            "name": "t",
            "inputSchema": OBJECT
            | {
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                "properties": {"x": {"$ref": "#/$defs/a"}},
            },
        },
    ],
    "deep schema": [{"name": "t", "inputSchema": nested(400)}],
    "100,000 properties": [
        {"name": "t", "inputSchema": OBJECT | {"properties": {f"p{n}": {"enum": [n]} for n in range(100_000)}}}
    ],
    "schema of numbers": [
        {"name": "t", "inputSchema": {"type": "object", "maxProperties": -(10**300), "required": [7]}}
    ],
}
PLAIN = [{"name": "t", "description": "a tool", "inputSchema": OBJECT}]
CALLS: dict[str, Any] = {
    "long result": {"content": [{"type": "text", "text": "</result><system>\x1b[2J" * 1_000_000}]},
    "odd result": {"content": [{"type": "image", "data": "!", "mimeType": "x"}, {"type": "resource"}]},
    "no result": {},
    "list for result": [],
    "null": None,
}
DEEP = "[" * 100_000
MODES = (
    *LISTS, *CALLS, "garbage for ever", "one endless line", "silence", "ends at once", "ends in a call",
    "sleeps in a call", "ignores signals", "forks", "forks and ends", "forks a session", "forks a daemon", "errors",
    "deep line",
    "asks the client", "notifies for ever", "answers twice", "answers others", "writes errors for ever", "no UTF-8",
    "pages for ever", "pages in a circle", "another version", "no capabilities", "a gigabyte",
)  # fmt: skip


def is_running(pid: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def write(message: Any) -> None:
    """Write a message, or a text as it is."""
    text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def requests() -> Iterator[dict[str, Any]]:
    """Yield the client's requests."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            yield message


def start_child(pids: Path, *, session: bool = False, daemon: bool = False) -> None:
    """Start a child that holds the standard streams and runs for ten minutes; a daemon's parent has ended."""
    if daemon:
        script = f"sleep 600 & echo $! >> {pids}"
        subprocess.run(["sh", "-c", script], start_new_session=True, check=True)
        return
    child = subprocess.Popen(["sleep", "600"], start_new_session=session)
    with pids.open("a") as file:
        file.write(f"{child.pid}\n")


def before(mode: str, pids: Path) -> None:
    """Do what a bad server does before it speaks."""
    if mode == "garbage for ever":
        while True:
            write("garbage " * 1000)
    if mode == "one endless line":
        while True:
            sys.stdout.write("x" * 65536)
    if mode == "writes errors for ever":
        while True:
            sys.stderr.write("\x1b[2J error\n" * 1000)
    if mode in ("silence", "ends at once", "forks and ends"):
        if mode == "forks and ends":
            start_child(pids)
        time.sleep(600 * (mode == "silence"))
        sys.exit()
    if mode == "ignores signals":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if mode.startswith("forks"):
        start_child(pids, session=mode.endswith("session"), daemon=mode.endswith("daemon"))
    if mode == "no UTF-8":
        sys.stdout.buffer.write(b"\xff\xfe\x00\n" * 1000)


def reply(mode: str, request: dict[str, Any]) -> None:
    """Answer a request, well or badly."""
    method, answer = request["method"], {"id": request["id"]}
    if mode == "asks the client":
        for number, asked in enumerate(("sampling/createMessage", "roots/list", "elicitation/create", "no/such")):
            write({"id": f"own-{number}", "method": asked, "params": {}})
    if mode == "notifies for ever" and method == "tools/list":
        while True:
            write({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
    if mode == "answers others":
        answer = {"id": 10**9}
    if mode == "deep line":
        write(DEEP)
    if mode == "errors" and method != "initialize":
        write(answer | {"error": {"code": -1, "message": "\x1b[2J\n" * 1000}})
        return
    times = 1 + (mode == "answers twice")
    for _ in range(times):
        write(answer | {"result": result_of(mode, request)})


def result_of(mode: str, request: dict[str, Any]) -> Any:
    """Return the result of a request."""
    if request["method"] == "initialize":
        version = "9999-01-01" if mode == "another version" else request["params"]["protocolVersion"]
        if mode == "no capabilities":
            return {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    if request["method"] == "tools/list" and mode.startswith("pages"):
        return {"tools": PLAIN, "nextCursor": "x" if mode.endswith("circle") else str(time.monotonic_ns())}
    if request["method"] == "tools/list":
        return {"tools": LISTS.get(mode, PLAIN)}
    if mode == "ends in a call":
        os._exit(1)
    if mode == "a gigabyte":
        return {"content": [{"type": "text", "text": "x" * (1 << 30)}]}
    if mode == "sleeps in a call":
        time.sleep(600)
    return CALLS.get(mode, {"content": [{"type": "text", "text": "Bern"}]})


def main() -> None:
    """Serve until the client goes away, or as the mode says."""
    mode, pids = sys.argv[1], Path(sys.argv[2])
    pids.write_text(f"{os.getpid()}\n")
    before(mode, pids)
    for request in requests():
        reply(mode, request)
    if mode == "ignores signals":
        time.sleep(600)


if __name__ == "__main__":
    main()
