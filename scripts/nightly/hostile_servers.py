"""Clients of servers that attack them: each attack ends in time, in little memory, with a reply or a clear error.

    python -m scripts.nightly.hostile_servers --share 10
    python -m scripts.nightly.hostile_servers --client anthropic --attack bomb

The servers are those of `hostile_server`. An attack fails where a client takes more time than its settings allow or
much memory, ends in an error that is not one of Emend's, repeats the key, sends it to another host, or makes requests
that it does not count.
"""

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from emend.agents.llm import load_model
from emend.evals.construction.wikidata.query import WikiClient, WikiServers
from emend.evals.data.download import Remote, download
from emend.memory.errors import EmendError
from scripts.benchmarks.alarm import alarm, watch
from scripts.nightly.hostile_acts import ELSEWHERE, WARM_UP
from scripts.nightly.hostile_server import KEY
from scripts.nightly.spoiling import in_process_limits
from tests.provider.models import quick_policy

TIMEOUT, DEADLINE = 2.0, 4.0
"""Time limits of a call, without a byte and as a whole."""
SLACK = 6.0
"""Seconds beyond the deadline, since the machine has other work."""
MOST_MEGABYTES = 500
TOOL = {"type": "function", "function": {"name": "search_memory", "parameters": {"type": "object", "properties": {}}}}
ROOT = Path(__file__).resolve().parents[2]
BOUNDS = {"timeout": TIMEOUT, "deadline": DEADLINE}


class Server(NamedTuple):
    """The ports by attack, and the file of requests."""

    ports: dict[str, int]
    log: Path


class Result(NamedTuple):
    """The end of an attack, with the number of requests that the client counts; None where it counts none."""

    end: str
    counted: int | None


Client = Callable[[int, Path], int | None]
"""Uses a server at a port, with a folder of its own, and returns the number of requests that it counts."""


def ask(provider: str, settings: dict[str, Any], use: Callable[[Any], Any], port: int, folder: Path) -> int:
    """Ask a model once; the count is that of the ledger."""
    policy = quick_policy()
    try:
        model = load_model(f"{provider}:any-model@http://127.0.0.1:{port}/v1", policy, **BOUNDS | settings)
        check_text(str(use(model)))
    finally:
        Counted.requests = policy.ledger.total().requests
    return Counted.requests


class Counted:
    """The requests of the latest call, which an error does not carry."""

    requests: int | None = None


def check_text(text: str) -> None:
    """Check what goes into records."""
    assert KEY not in text, "the key is in the reply"


def say(model: Any) -> Any:
    """Return a reply."""
    return model.invoke("Where?").text


def call_tools(model: Any) -> Any:
    """Return a reply to which tools were offered."""
    message = model.bind_tools([TOOL]).invoke("Where?")
    assert len(message.tool_calls) <= 1000, f"{len(message.tool_calls)} tool calls"
    return message


def fill_schema(model: Any) -> Any:
    """Return a structured reply."""
    schema = {"title": "Place", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return model.with_structured_output(schema).invoke("Where?")


def score(model: Any) -> Any:
    """Return log-probabilities of two targets, where the server has them."""
    if not hasattr(model, "score"):
        return say(model)
    return model.score("Where?", ["Ostrim", "Brask"])


def query(kind: str, port: int, folder: Path) -> None:
    """Query the service of SPARQL, or an API of MediaWiki."""
    url = f"http://127.0.0.1:{port}/sparql"
    servers = WikiServers(sparql=url, wikidata=url, wikipedia=url)
    with quick_wiki(folder, servers) as client:
        if kind == "sparql":
            client.select("SELECT ?x {}", json.loads)
        else:
            client.call(url, {"action": "query"}, json.loads)


def quick_wiki(folder: Path, servers: WikiServers) -> WikiClient:
    """Return a client without pauses."""
    return WikiClient("me@example.org", folder / "cache", servers, DEADLINE / 4, 1 << 23, sleep=lambda seconds: None)


def fetch(port: int, folder: Path) -> None:
    """Download a file of unknown content."""
    remote = Remote(name="data.json", url=f"http://127.0.0.1:{port}/data.json", licence="none", size=1 << 18)
    module = "emend.evals.data.transfer"
    with patch(f"{module}.TIMEOUT", (DEADLINE / 2, DEADLINE / 2)), patch(f"{module}.SLOW_SECONDS", DEADLINE / 2):
        download(remote, folder, lambda received, size: None, retries=1)


CLIENTS: dict[str, Client] = {
    "openai": partial(ask, "openai", {}, say),
    "openai, gateway key": partial(ask, "openai", {"default_headers": {"X-Gateway-Key": KEY}, "api_key": "none"}, say),
    "openai, tools": partial(ask, "openai", {}, call_tools),
    "openai, schema": partial(ask, "openai", {}, fill_schema),
    "openai, stream": partial(ask, "openai", {"streaming": True}, say),
    "openai, responses": partial(ask, "openai", {"use_responses_api": True}, say),
    "anthropic": partial(ask, "anthropic", {}, say),
    "anthropic, tools": partial(ask, "anthropic", {}, call_tools),
    "anthropic, stream": partial(ask, "anthropic", {"streaming": True}, say),
    "vllm": partial(ask, "vllm", {}, say),
    "completions": partial(ask, "completions", {}, say),
    "sparql": partial(query, "sparql"),
    "mediawiki": partial(query, "mediawiki"),
    "download": fetch,
}


def perform(client: Client, port: int) -> Result:
    """Return how an attack ends: `fine`, the name of one of Emend's errors, or a problem with a colon."""
    Counted.requests = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            with alarm(DEADLINE + SLACK + 20):
                client(port, Path(folder))
            end = "fine"
        except EmendError as error:
            end = type(error).__name__ + flaw_in(str(error))
        except (Exception, KeyboardInterrupt) as error:  # reported
            end = f"{type(error).__name__}: {str(error)[:200]}"
        if any(KEY.encode() in file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()):
            end += ": the key is in a file"
    return Result(end, Counted.requests)


def flaw_in(message: str) -> str:
    """Return what is wrong with the message of an error, after a colon."""
    if KEY in message:
        return ": the message has the key"
    if len(message) > 3000:
        return f": the message has {len(message)} characters"
    return ": the message has control characters" if any(ord(sign) < 32 for sign in message) else ""


def memory(name: str) -> int:
    """Return megabytes of this process: `VmRSS` now, `VmHWM` at most."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) // 1024


def attack_all(client: str, names: list[str]) -> None:
    """Carry out attacks whose ports are on standard input; write a line of JSON for each."""
    in_process_limits(gigabytes=8)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    ports = json.loads(sys.stdin.readline())
    perform(CLIENTS[client], ports[WARM_UP])
    for name in names:
        watch(f"{client}: {name}", 60)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before, begin = memory("VmRSS"), time.monotonic()
        end, counted = perform(CLIENTS[client], ports[name])
        seconds, grown = time.monotonic() - begin, memory("VmHWM") - before
        line = {"attack": name, "end": end, "seconds": seconds, "megabytes": grown, "counted": counted}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


# --- the parent


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """Run the attacking server."""
    log = folder / "requests"
    words = [sys.executable, "-m", "scripts.nightly.hostile_server", str(log)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        try:
            yield Server(json.loads(process.stdout.readline()), log)
        finally:
            process.stdin.close()
            process.wait(60)


def results(client: str, names: list[str], server: Server, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a line for each attack; where the process of the client dies, another one goes on."""
    environment = os.environ | {f"{name}_API_KEY": KEY for name in ("OPENAI", "ANTHROPIC", "VLLM")}
    if "gateway" in client:
        del environment["OPENAI_API_KEY"]
    left = list(names)
    while left:
        words = [sys.executable, "-m", "scripts.nightly.hostile_servers", "--within", client, "--names", *left]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with (folder / "errors").open("w") as errors:
            with subprocess.Popen(words, cwd=ROOT, env=environment, stderr=errors, **pipes) as process:
                assert process.stdin and process.stdout
                process.stdin.write(json.dumps(server.ports) + "\n")
                process.stdin.flush()
                for text in process.stdout:
                    if text.startswith('{"attack"'):
                        left = left[1:]
                        yield json.loads(text)
        if left:
            said = (folder / "errors").read_text()[-1500:]
            end = f"process: it ended with {process.returncode}: {said}"
            yield {"attack": left[0], "end": end, "seconds": 0.0, "megabytes": 0, "counted": None}
            left = left[1:]


def problems_of(line: dict[str, Any], requests: list[list[str]]) -> list[str]:
    """Return what is wrong about the end of an attack; `requests` has attack, key and path of each at the server."""
    found = [line["end"]] if ":" in line["end"] else []
    if line["seconds"] > DEADLINE + SLACK:
        found.append(f"{line['seconds']:.0f} s")
    if line["megabytes"] > MOST_MEGABYTES:
        found.append(f"{line['megabytes']} MB")
    at_server = sum(attack == line["attack"] for attack, _, _ in requests)
    if line["counted"] is not None and at_server > line["counted"] and "redirect" not in line["attack"]:
        found.append(f"{at_server} requests, {line['counted']} counted")
    if any(attack == ELSEWHERE for attack, _, _ in requests):
        found.append("requests to another host")
    return found


def attack_client(client: str, names: list[str], server: Server, folder: Path) -> tuple[Counter[str], int]:
    """Print problems of a client and its row; return the counts of ends, and the number of problems."""
    ends, bad, seconds, megabytes, requests = Counter[str](), 0, 0.0, 0, 0
    for line in results(client, names, server, folder):
        ends[line["end"].partition(":")[0]] += 1
        seconds, megabytes = max(seconds, line["seconds"]), max(megabytes, line["megabytes"])
        latest = [row.split("\t") for row in server.log.read_text().splitlines()]
        server.log.write_text("")
        requests += len(latest)
        found = problems_of(line, latest)
        bad += bool(found)
        sys.stdout.writelines(f"    {client}, {line['attack']}: {problem[:600]}\n" for problem in found)
        sys.stdout.flush()
    sys.stdout.write(
        f"{client}: {ends.total()} attacks, {json.dumps(ends)}, at most {seconds:.1f} s and {megabytes} MB, "
        f"{requests} requests, {bad} problems\n"
    )
    sys.stdout.flush()
    return ends, bad


def main() -> int:
    """Print a row for each client; return 1 if any attack is a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", choices=list(CLIENTS), action="append")
    parser.add_argument("--attack", action="append", help="beginning of the names of attacks")
    parser.add_argument("--share", type=int, default=1, help="carry out one of so many attacks")
    parser.add_argument("--within", choices=list(CLIENTS), help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        attack_all(options.within, options.names)
        return 0
    total, bad = Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        names = [name for name in server.ports if name not in (ELSEWHERE, WARM_UP)]
        if options.attack:
            names = [name for name in names if name.startswith(tuple(options.attack))]
        for client in options.client or CLIENTS:
            ends, problems = attack_client(client, names[:: options.share], server, Path(folder))
            total, bad = total + ends, bad + problems
    sys.stdout.write(f"{total.total()} attacks: {total['fine']} ended well, others in clear errors; {bad} problems\n")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
