"""Attacks by who is at the other end: servers of Wikimedia, commands as MCP servers, and Ctrl-C from the keyboard."""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from emend.agents.mcp_tools import open_tools
from emend.evals.construction.wikidata.query import WikiClient, fetch_leads, query_updates
from emend.evals.data.download import Remote, download
from emend.evals.data.facts.relation_tables import Relations
from emend.evals.log.lines import RECORDS
from emend.evals.results.settings_search import read_journal
from scripts.nightly.spoiling import Case
from scripts.nightly.tool_server import MODES, is_running
from tests.evals.construction.wikidata.entities import entity, statement
from tests.evals.construction.wikidata.wiki_server import Fault, WikiServer, serving

SECONDS = 2.0
"""Time limit of a request to a server, and of a call to a tool; the true ones are minutes."""
GRACE = 30.0
"""Seconds in which an attacked command has to end, or an interrupted one."""
CLAIMS = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]


def wiki_peers(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield queries of servers that drip, redirect without end, lie about sizes, or reply in odd types."""
    with serving() as server:
        server.publish(entity("Q1", "Land", CLAIMS), entity("Q10", "Ann"), entity("Q30", "Bea"))
        faults = wiki_faults(f"http://127.0.0.1:{server.server_address[1]}")
        for number, (name, fault) in enumerate(islice(cycle(faults.items()), count)):
            use = read_leads if number % 3 == 2 else read_changes
            yield f"{name} {number}", partial(use, server, fault, root / f"cache-{number}")


def wiki_faults(root: str) -> dict[str, Fault]:
    """Return bad replies by name."""
    page = b"<html><title>Wikimedia Error</title></html>"
    rows = [{"item": {"value": value}} for value in ("", "Q", "Q1/../..", "http://evil.test/Q1", "Q" + "9" * 5000)]
    redirects = {"to itself": f"{root}/sparql", "to a file": "file:///etc/passwd", "elsewhere": "http://192.0.2.1/"}
    headers = {"relative": "//192.0.2.1/x", "to nothing": "", "to a script": "javascript:alert(1)"}
    faults = {f"redirect {name}": Fault(302, b"", {"Location": url}) for name, url in (redirects | headers).items()}
    return faults | {
        "drip": Fault(200, b" ", endless=True, pause=0.05),
        "drip of JSON": Fault(200, b'{"a":', endless=True, pause=0.02),
        "flood": Fault(200, b"x" * 65536, endless=True),
        "drip of a header": Fault(dripping=True),
        "silence": Fault(silent=True),
        "page": Fault(200, page, {"Content-Type": "text/html"}),
        "page as JSON": Fault(200, page, {"Content-Type": "application/json"}),
        "XML": Fault(200, b"<?xml version='1.0'?><sparql/>", {"Content-Type": "application/sparql-results+xml"}),
        "odd rows": Fault(200, json.dumps({"results": {"bindings": rows}}).encode()),
        "rows of others": Fault(200, json.dumps({"results": {"bindings": {"a": 1}}}).encode()),
        "a million rows": Fault(200, json.dumps({"results": {"bindings": rows[2:3] * 300_000}}).encode()),
        "zip in zip": Fault(200, gzip.compress(gzip.compress(b"x" * 10**8)), {"Content-Encoding": "gzip, gzip"}),
        "brotli": Fault(200, b"\x0b\x02\x80{}\x03", {"Content-Encoding": "br"}),
        "long header": Fault(200, b"{}", {"X-Long": "x" * 60_000}),
        "many headers": Fault(200, b"{}", {f"X-{number}": "x" for number in range(2000)}),
        "pause of a year": Fault(429, b"", {"Retry-After": "31536000"}),
        "pause of nonsense": Fault(503, b"", {"Retry-After": "-1e99"}),
        "lag for ever": Fault(200, b"{}", {"MediaWiki-API-Error": "maxlag", "Retry-After": "1"}),
        "error with escapes": Fault(200, json.dumps({"error": {"code": "\x1b[2J", "info": "\n" * 99}}).encode()),
        "reason with escapes": Fault(403, b"\x1b[2J\n\n" * 50),
        "cookie": Fault(200, b"{}", {"Set-Cookie": "a=b; Domain=localhost"}),
        "continued for ever": Fault(200, b'{"query":{"pages":[]},"continue":{"excontinue":1}}'),
    }


def client_of(server: WikiServer, fault: Fault, cache: Path) -> WikiClient:
    """Return a client of a server that has this fault for up to 60 requests."""
    server.faults.clear()
    server.faults.extend([fault] * 60)
    return WikiClient("me@example.org", cache, server.servers, SECONDS, 1 << 20, sleep=lambda seconds: None)


def read_changes(server: WikiServer, fault: Fault, cache: Path) -> None:
    """Query the fact updates of all relations."""
    with client_of(server, fault, cache) as client:
        list(query_updates(client, date(2021, 4, 1), Relations.read(), limit=2, today=date(2026, 1, 1)))


def read_leads(server: WikiServer, fault: Fault, cache: Path) -> None:
    """Fetch the leads of two pages."""
    with client_of(server, fault, cache) as client:
        fetch_leads(client, ["Ann page", "Bea page"])


def downloads(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield downloads of a data file, begun before, from servers that redirect, lie about sizes or send bombs."""
    with serving() as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        faults = {name: fault for name, fault in wiki_faults(address).items() if not fault.endless}
        lies = {"0-9/10": 206, "bytes 0-9/10": 206, "bytes 5-1/-3": 206, f"bytes {'9' * 99}-1/1": 206, "bytes */0": 416}
        faults |= {f"range {text}": Fault(code, b"x", {"Content-Range": text}) for text, code in lies.items()}
        faults["a length of 2^60"] = Fault(200, b"x", {"Content-Length": str(2**60)})
        faults["a pointer"] = Fault(200, b"version https://git-lfs.github.com/spec/v1\n")
        for number, (name, fault) in enumerate(islice(cycle(faults.items()), count)):
            (folder := root / str(number)).mkdir()
            yield f"{name} {number}", partial(fetch_file, server, fault, address, folder)


def fetch_file(server: WikiServer, fault: Fault, address: str, folder: Path) -> None:
    """Download a file with a known checksum, of which a part is there; a file that is there is the right one."""
    content = b"0123456789"
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    remote = Remote(name="data.json", url=f"{address}/data.json", licence="none", digest=digest)
    (folder / f"data.json.{digest[-12:]}.part").write_bytes(content[:4])
    server.faults.clear()
    server.faults.extend([fault] * 60)
    part = "emend.evals.data.transfer"
    with patch(f"{part}.TIMEOUT", (SECONDS, SECONDS)), patch(f"{part}.SLOW_SECONDS", SECONDS):
        download(remote, folder, lambda received, size: None, retries=1)
    assert (folder / "data.json").read_bytes() == content, "another file was accepted"


def tool_servers(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield uses of commands that are bad MCP servers; none of them may run on afterwards."""
    for number, mode in enumerate(islice(cycle(MODES), count)):
        yield f"{mode} {number}", partial(use_tools, mode, root / f"pids-{number}")


def use_tools(mode: str, pids: Path) -> None:
    """List the tools of a server and call three; afterwards it and what it has forked must have ended."""
    name = f"mcp:{sys.executable} -m scripts.nightly.tool_server '{mode}' {pids}"
    begin = time.monotonic()
    try:
        with patch("emend.agents.mcp_tools.START_SECONDS", 5.0), patch("emend.agents.mcp_tools.CALL_SECONDS", SECONDS):
            with open_tools(name) as tools:
                for tool in tools[:3]:
                    shown = str(tool.invoke({}))
                    assert len(shown) < 20_000, f"{len(shown)} characters reach the prompt"
                    assert "\x1b" not in shown, "an escape sequence reaches the prompt"
                assert len(tools) <= 64, f"{len(tools)} tools"
    finally:
        seconds = time.monotonic() - begin
        time.sleep(0.2)
        processes = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
        running = [pid for pid in processes if is_running(pid)]
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not running, f"{len(running)} of {len(processes)} processes of the server run on"
    assert seconds < GRACE, f"it took {seconds:.0f} s"


COMMANDS = {
    "edit": "edit --model tiny --method {method} --edits {edits} --out {out}",
    "run": "run --benchmark tinyworld --model tiny --editor {method} --limit 3 --out {out}",
    "tune": "prepare tune ft --set ft.num_steps=1 --benchmark tinyworld --model tiny --limit 2 --train 4 --trials 2"
    " --out {out}",
}


def keyboards(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield commands that edit, train or tune, are interrupted by Ctrl-C once or twice, and are given again."""
    edit: dict[str, Any] = {
        "form": "triplet",
        "text": "The capital of Aland is Bern.",
        "prompt": "The capital of {} is",
    }
    edit |= {"subject": "Aland", "target_new": "Bern"}
    edit["triplets"] = [{"subject": "Aland", "relation": "capital", "object": "Bern"}]
    (root / "edits.jsonl").write_text(json.dumps(edit) + "\n")
    pairs = [(command, method) for method in ("rome", "ft", "memit", "lora") for command in COMMANDS]
    for number, (command, method) in enumerate(islice(cycle(pairs), count)):
        out = root / f"{command}-{number}"
        words = COMMANDS[command].format(method=method, edits=root / "edits.jsonl", out=out).split()
        yield f"{command} {method} {number}", partial(interrupt_twice, words, out, rng.uniform(1, 8), number % 2 == 1)


def interrupt_twice(words: list[str], out: Path, seconds: float, twice: bool) -> None:
    """Interrupt a command, then let it end: no traceback, no half an artefact, nothing lost or doubled."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from emend.evals.cli.main import main; main()", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=take_interrupts,
    )  # fmt: skip
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(signal.SIGINT)
    if twice:
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=4 * GRACE)
    assert "Traceback" not in output or seconds < 3, output[-300:]  # Python writes one while it imports
    aborted = process.returncode == -signal.SIGABRT and "KeyboardInterrupt" in output  # PyTorch, while it is imported
    assert aborted or process.returncode in (0, 1, 130, -signal.SIGINT), (
        f"exit code {process.returncode}: {output[-300:]}"
    )
    if words[0] == "edit" and process.returncode:
        assert not out.exists() or not any(out.iterdir()), "half an artefact is left"
    if words[0] == "edit" and out.exists():
        return
    ended = subprocess.run(
        [sys.executable, "-m", "emend", *words], capture_output=True, text=True, check=False, timeout=8 * GRACE
    )
    assert not ended.returncode, f"exit code {ended.returncode}: {ended.stderr[-300:]}"
    check_whole(out)


def take_interrupts() -> None:
    """Handle SIGINT as a command in the foreground does; one in the background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def check_whole(out: Path) -> None:
    """Check that a finished run has each record once, and a search each trial."""
    lines: list[Any] = []
    if (out / RECORDS).exists():
        lines = [(line["unit"], line["probe"]) for line in map(json.loads, (out / RECORDS).read_text().splitlines())]
        assert lines, "no record"
    journals = list(out.parent.glob(f"{out.name}*trials.jsonl"))
    lines += [trial.key for journal in journals for trial in read_journal(journal)]
    assert len(lines) == len(set(lines)), "a record is there twice"
