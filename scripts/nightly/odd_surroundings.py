"""Attacks what an edit, a memory and a construction work with: each ends as if nothing was wrong, or in a clear error.

    python -m scripts.nightly.odd_surroundings --count 200

Edits as files and folders of Chroma with changed bytes, dumps of Wikidata that are spoiled or bombs, replies of its
servers that are none, commands that are no MCP server, runs resumed with other settings, a clock that goes back, and
what `odd_moments` has. Memories of others are attacked where their packages are installed.
"""

import argparse
import gzip
import json
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec

from emend.agents.llm import load_model
from emend.agents.mcp_tools import open_tools
from emend.editors.base import NO_COST, EditorContext
from emend.editors.checkpoint.deltas import read_delta, read_manifest, write_delta
from emend.editors.conformance import CAPITAL
from emend.editors.registry import EDITORS
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.wikidata.dump import read_updates
from emend.evals.construction.wikidata.query import WikiClient
from emend.evals.data.facts.relation_tables import Relations
from emend.evals.evaluate.run import run
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import EmendError
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.store.chroma import ChromaMemory
from scripts.benchmarks.alarm import alarm, watch
from scripts.nightly.odd_artefacts import archives, artefacts, configurations, foreign_stores, journals
from scripts.nightly.odd_commands import chat_logs, data_folders, declarations, prompt_files, samples, tables
from scripts.nightly.odd_judges import corrections, lenient_judges, settlements, verdicts
from scripts.nightly.odd_moments import adapters, interruptions, read_only, stores, tunings, writers
from scripts.nightly.odd_peers import downloads, keyboards, tool_servers, wiki_peers
from scripts.nightly.spoiled.dumps import odd_dumps
from scripts.nightly.spoiled.encoders import encoder_adapters
from scripts.nightly.spoiled.interrupts import interrupted_runs
from scripts.nightly.spoiled.resumes import changed_settings
from scripts.nightly.spoiled.stores import changed_stores, killed_writers
from scripts.nightly.spoiling import Case, spoil, spoiled_copy, towns
from tests.evals.construction.wikidata.entities import dump_of, entity, statement
from tests.evals.construction.wikidata.wiki_server import Fault, WikiServer
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel
from tests.fakes import tiny_random_lm

SECONDS = 300
"""Time limit of an attack in seconds; exceeding it is a problem."""


class Outcome(NamedTuple):
    """Outcomes of attacks of one kind, with counts and problems."""

    sort: str
    ends: Counter[str]
    problems: list[str]


def edit_files(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield reads of deltas with changed bytes in their manifest or their tensors."""
    model: Any = load_model(f"hf:{tiny_random_lm('llama', root, window=96)}", device="cpu")
    settings = {"layers": [0], "v_num_grad_steps": 2, "prefixes": ["So. "], "covariance": "identity"}
    editor: Any = EDITORS.load("rome")(EditorContext(model, settings=settings))
    write_delta(root / "delta", editor.solve([CAPITAL]), editor, model.lm, [CAPITAL], NO_COST, {"emend": "0"})

    def read(folder: Path) -> None:
        read_manifest(folder)
        read_delta(folder, model.lm)

    for number in range(count):
        yield f"delta {number}", partial(read, spoiled_copy(root / "delta", root / f"delta-{number}", rng))


def chroma_folders(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield uses of edit memories with changed bytes in one of their files."""
    with ChromaMemory(root / "memory", LexicalEmbedding()) as memory:
        memory.add(towns(30))

    def read(folder: Path) -> None:
        with ChromaMemory(folder, LexicalEmbedding(), create=False) as memory:
            memory.view().nearest("Who is the mayor of Town 3?", 3)
            memory.add(towns(31)[30:])

    for number in range(count):
        yield f"memory {number}", partial(read, spoiled_copy(root / "memory", root / f"memory-{number}", rng))


def dumps(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield reads of Wikidata dumps with changed bytes, and of decompression bombs."""
    claims = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]
    whole = dump_of(*(entity(f"Q{1000 + number}", f"Land{number}", claims) for number in range(20)))
    bombs = {
        "one line": b"[\n" + b"x" * 300_000_000,
        "lines": b"[\n" + b"{}\n" * 3_000_000,
        "nested": b"[\n" + b"[" * 20_000_000 + b"\n]",
        "labels": b'[\n{"id":"Q1","labels":{"en":{"value":"' + b"y" * 100_000_000 + b'"}}},\n]',
    }

    def read(file: Path) -> None:
        list(read_updates(file, date(2021, 4, 1), Relations.read(), workers=1))

    for name, content in bombs.items():
        file = root / f"{name.replace(' ', '-')}.json.gz"
        file.write_bytes(gzip.compress(content, 1))
        yield f"bomb {name}", partial(read, file)
    for number in range(count - len(bombs)):
        file = root / f"dump-{number}.json{rng.choice(('', '.gz'))}"
        file.write_bytes(gzip.compress(whole) if file.suffix == ".gz" else whole)
        spoil(file, rng)
        yield f"dump {number}", partial(read, file)


REPLIES = (b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b"<html>", b"[" * 100_000, b'{"entities":[]}')


def servers(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield requests with invalid replies of Wikidata's servers: errors, bombs, odd types."""
    bomb = gzip.compress(b"x" * 200_000_000, 1)
    faults = [Fault(200, body) for body in REPLIES]
    faults += [Fault(status, b"no") for status in (201, 204, 302, 400, 403, 404, 414, 451)]
    faults += [Fault(200, bomb, {"Content-Encoding": "gzip"}), Fault(200, b"x", {"Content-Encoding": "gzip"})]
    with WikiServer() as server, serving(server):
        for number in range(count):
            fault = faults[number % len(faults)]
            yield f"reply {fault.status} {fault.body[:12]!r}", partial(ask, server, fault, root / f"cache-{number}")


@contextmanager
def serving(server: WikiServer) -> Iterator[None]:
    """Run the server in a thread inside the `with`."""
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.closed = True
        server.shutdown()


def ask(server: WikiServer, fault: Fault, cache: Path) -> None:
    """Request an entity from a server with this fault, for up to 20 requests."""
    server.faults.clear()
    server.faults.extend([fault] * 20)
    client = WikiClient("me@example.org", cache, server.servers)
    client.call(server.servers.wikidata, {"action": "wbgetentities", "ids": "Q1"}, msgspec.json.decode)


def commands(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield starts of commands that are not MCP servers."""
    lines = (
        "true",
        "false",
        "echo {}",
        "no-such-command",
        "cat /dev/null",
        "yes",
        "head -c 9000000 /dev/zero",
        "'",
        "/",
    )
    for number in range(count):
        yield f"mcp:{lines[number % len(lines)]}", partial(start_tools, f"mcp:{lines[number % len(lines)]}")


def start_tools(name: str) -> None:
    """Start a server and list its tools, with a shorter timeout than usual."""
    with patch("emend.agents.mcp_tools.START_SECONDS", 3.0), open_tools(name):
        pass


def settings(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield runs that are resumed with another setting."""
    fields = {"benchmark": BENCHMARK, "editors": (EDITOR,), "model": "scripted", "benchmark_options": {"cases": "3"}}
    run(RunConfig.model_validate(fields), root / "run", model=ScriptedModel())
    changes: list[dict[str, Any]] = [
        {"seed": 7}, {"repeats": 2}, {"limit": 1}, {"mode": "all"}, {"embedding": "lexical"}, {"retriever": "bm25"},
        {"editors": ("rag",)}, {"benchmark_options": {"cases": "4"}}, {"protocols": ("contains",)}, {"concurrency": 1},
        {"prompt_template": "brief"}, {"fail_on_error": "false"}, {"count_only": "wrong_before"}, {"settings": ("x",)},
    ]  # fmt: skip
    for number in range(count):
        change = changes[number % len(changes)]
        folder = Path(shutil.copytree(root / "run", root / f"run-{number}"))
        yield f"resume {change}", partial(resume, RunConfig.model_validate(fields | change), folder)


def resume(config: RunConfig, folder: Path) -> None:
    """Resume a run and check that its records do not change."""
    before = (folder / "records.jsonl").read_bytes()
    run(config, folder, model=ScriptedModel())
    assert (folder / "records.jsonl").read_bytes() == before, "records were added to a finished run"


def clocks(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield memories whose clock is set back between two changes."""
    for number in range(count):
        yield f"clock {number}", partial(set_back, root / f"clock-{number}", rng.choice((1, 3600, 10**6, 10**9)))


def set_back(folder: Path, seconds: int) -> None:
    """Change a fact and an edit after setting the clock back; the later change must win."""
    with FactMemory(folder / "facts") as facts, ChromaMemory(folder / "edits", LexicalEmbedding()) as edits:
        facts.remember("Ann", "home city", "Bern")
        edits.add(towns(1))
        now, present = time.time_ns(), time.time()
        with patch("time.time_ns", lambda: now - seconds * 10**9), patch("time.time", lambda: present - seconds):
            facts.update("Ann", "home city", "Brask")
            edits.add([Edit(form="document", text="The mayor of Town 0 is Luis.")])
        assert [fact.object for fact in facts.lookup("Ann", "home city").facts] == ["Brask"]
        assert len(edits.edits()) == 2


# Kinds of attacks with their shares of the count.
SORTS = {
    edit_files: 0.12, chroma_folders: 0.12, dumps: 0.12, servers: 0.1, commands: 0.05, settings: 0.07, clocks: 0.03,
    read_only: 0.12, interruptions: 0.08, writers: 0.02, tunings: 0.05, adapters: 0.1, stores: 0.05,
    artefacts: 0.16, foreign_stores: 0.12, archives: 0.12, journals: 0.08, configurations: 0.06,
    wiki_peers: 0.14, tool_servers: 0.15, keyboards: 0.06, data_folders: 0.2, declarations: 0.2, prompt_files: 0.1,
    samples: 0.08, tables: 0.15, downloads: 0.15, chat_logs: 1.0,
    lenient_judges: 0.25, verdicts: 0.15, settlements: 0.25, corrections: 0.25,
    encoder_adapters: 0.22, changed_settings: 0.2, changed_stores: 0.22, killed_writers: 0.05, odd_dumps: 0.36,
    interrupted_runs: 0.1,
}  # fmt: skip


def attack(sort: Callable[..., Iterator[Case]], count: int, seed: int) -> Outcome:
    """Run the attacks of one kind."""
    ends, problems = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name, case in sort(Path(folder), count, random.Random(seed)):
            watch(f"{sort.__name__}: {name}", 3 * SECONDS)
            begin = time.monotonic()
            end = how_it_ends(case)
            ends[end.partition(":")[0]] += 1
            if ":" in end:
                problems.append(f"{name}: {end}, {time.monotonic() - begin:.0f} s")
    return Outcome(sort.__name__, ends, problems)


def how_it_ends(case: Callable[[], object]) -> str:
    """Return `fine`, the name of an Emend error, or another error with a colon and its message."""
    try:
        with alarm(SECONDS):
            case()
        return "fine"
    except EmendError as error:
        return f"{type(error).__name__}: of several lines" if "\n" in str(error) else type(error).__name__
    except (Exception, KeyboardInterrupt) as error:  # an unexpected error, which is reported
        return f"{type(error).__name__}: {error}"


def main() -> int:
    """Print a line for each kind of attack; return 1 if any has a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[sort.__name__ for sort in SORTS], action="append")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a command in the background ignores it
    ends, bad = Counter[str](), 0
    for sort, share in SORTS.items():
        if options.only and sort.__name__ not in options.only:
            continue
        outcome = attack(sort, max(5, round(share * options.count)), options.seed)
        ends, bad = ends + outcome.ends, bad + len(outcome.problems)
        counts = json.dumps(outcome.ends)
        sys.stdout.write(
            f"{outcome.sort}: {outcome.ends.total()} attacks, {counts}, {len(outcome.problems)} problems\n"
        )
        sys.stdout.writelines(f"    {problem[:300]}\n" for problem in outcome.problems)
        sys.stdout.flush()
    sys.stdout.write(
        f"{ends.total()} attacks: {ends['fine']} ended well, the others in errors of their own; {bad} problems\n"
    )
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
