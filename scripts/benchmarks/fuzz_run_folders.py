"""Mutates files of a run folder, one at a time, and reads the folder with every command that reads one.

Each command must end within a minute with exit code 0, or 2 and one line; nothing outside the folder may change.

    python scripts/benchmarks/fuzz_run_folders.py --count 1000 --seed 0
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from typer.testing import CliRunner  # noqa: E402

from emend.agents.providers.journal import CallJournal  # noqa: E402
from emend.evals.cli.main import app  # noqa: E402
from emend.evals.evaluate.side_effects import load_texts  # noqa: E402
from emend.evals.log.lines import COSTS, RECORDS  # noqa: E402
from emend.memory.edit import content_id  # noqa: E402
from emend.memory.embeddings.embed import load_embedding  # noqa: E402
from emend.memory.errors import EmendError  # noqa: E402
from scripts.benchmarks.alarm import alarm, watch  # noqa: E402
from tests.evals.judged_runs import speak, verdict  # noqa: E402
from tests.paths import DATA  # noqa: E402
from tests.provider.protocols import Asked  # noqa: E402
from tests.provider.server import Provider  # noqa: E402

SECONDS = 60
LONGEST = 1800.0
"""Seconds after which a case ends the process: longer than all its commands at their limit."""
COMMANDS = (
    "report",
    "report --json",
    "report --scoring none",
    "trace",
    "trace --errors",
    "trace --mermaid",
    "trace 1",
    "trace 2 --json",
    "trace 1 --md",
    "compare",
    "analyse",
    "analyse editors",
    "judge run",
    "resume",
)
ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 7, 1e308, -1e308, float("inf"), float("nan"), 10**30, 0.5, "", "x", "\ud800", "\x1b[31m",
    "../../etc/passwd",
    "9" * 400, "x" * 100_000, "2020-13-45", [], {}, [[]], [None], [1, "a"], {"a": {"b": []}},
    {"": 0},
)  # fmt: skip
VICTIM = b"precious\n"


class Finding(NamedTuple):
    """A command that ended as none may."""

    number: int
    mutation: str
    command: str
    problem: str


def answer(asked: Asked) -> str:
    """The model under test and the judge."""
    return verdict(asked.prompt) if "<answer" in asked.prompt or "fact" in asked.prompt[:200] else speak(asked.prompt)


def make_run(folder: Path, provider: Provider) -> Path:
    """A judged run with every kind of file: one unit unfinished, one failed, costs of weights, a journal."""
    spec = provider.spec("chat")
    words = "run --benchmark elken --benchmark-option blocks=fact,tendency_g --editor unedited --editor rag"
    words += " --embedding lexical --fail-on-error false"
    run_command([*words.split(), "--data", str(DATA / "elken"), "--model", spec, "--out", str(folder)])
    run_command(["judge", "run", str(folder), "--judge", judge_of(spec)])
    records = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    last = json.loads(records[-1])
    (folder / RECORDS).write_bytes(b"".join(records[: -last["of"]]))
    labels = {name: last[name] for name in ("editor", "setting", "mode", "repeat")}
    likelihoods = {"nats": [3.5, 2.0], "tokens": [3, 2], "unscored": ""}
    with (folder / COSTS).open("a") as file:
        for line in (
            {"act": "perplexity before", "texts": content_id("held out", load_texts(None, None, 0))} | likelihoods,
            {"act": "perplexity", **labels, "edits": "e", "standing": 1} | likelihoods,
        ):
            file.write(json.dumps(line) + "\n")
    journal = CallJournal(folder)
    journal._execute("INSERT INTO replies VALUES (?, ?)", f"{last['unit']}/call/1", "{}")
    journal.close()
    return folder


def judge_of(spec: str) -> str:
    """Another model of the same server."""
    name, _, address = spec.partition("@")
    return f"{name}-judge@{address}"


def run_command(words: list[str]) -> str:
    """Message of an error of Emend's; empty where the command succeeds. Anything else is raised."""
    outcome = CliRunner().invoke(app, words)
    if outcome.exception is None or (isinstance(outcome.exception, SystemExit) and outcome.exit_code == 0):
        return ""
    if isinstance(outcome.exception, EmendError):
        return str(outcome.exception)
    if isinstance(outcome.exception, SystemExit):
        raise AssertionError(f"exit code {outcome.exit_code}: {outcome.output[-300:]}")
    raise outcome.exception


# --- mutations of a file


def flip(rng: random.Random, content: bytes) -> bytes:
    """Change some bytes."""
    changed = bytearray(content or b"x")
    for _ in range(rng.choice((1, 3, 30))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def cut(rng: random.Random, content: bytes) -> bytes:
    """Leave out a part, or everything after a place."""
    start = rng.randrange(len(content) + 1)
    return content[:start] + (content[start + rng.randrange(1, 200) :] if rng.random() < 0.5 else b"")


def shuffle(rng: random.Random, content: bytes) -> bytes:
    """Repeat, drop, swap or insert lines."""
    lines = content.splitlines(keepends=True) or [b"\n"]
    place = rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        lines.insert(place, rng.choice(lines))
    elif how == 1:
        del lines[place]
    elif how == 2:
        rng.shuffle(lines)
    else:
        lines.insert(
            place, rng.choice((b"\n", b"null\n", b"[]\n", b"{}\n", b"3\n", b'"x"\n', b"{]\n", b"\xff\n", b"\0\n"))
        )
    return b"".join(lines)


def encode(rng: random.Random, content: bytes) -> bytes:
    """Write it in another encoding, with a mark, or with zeros at the end."""
    text = content.decode("utf-8", "replace")
    how = rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "zeros", "crlf"))
    if how == "zeros":
        return content + b"\0" * 4096
    return text.replace("\n", "\r\n").encode() if how == "crlf" else text.encode(how, "replace")


def deepen(rng: random.Random, content: bytes) -> bytes:
    """Insert a line, or a value, that is nested deeply or is a very long number."""
    depth = rng.choice((150, 300, 1_100, 100_000))
    deep = rng.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"9" * depth, b"1e999"))
    lines = content.splitlines(keepends=True) or [b"{}\n"]
    place = rng.randrange(len(lines))
    if rng.random() < 0.3:
        lines.insert(place, deep + b"\n")
    else:
        at = lines[place].find(b":", rng.randrange(len(lines[place]))) + 1
        lines[place] = lines[place][:at] + deep + (b"," + lines[place][at:] if rng.random() < 0.5 else b"}\n")
    return b"".join(lines)


def retype(rng: random.Random, content: bytes) -> bytes:
    """Replace, rename or drop one value of a JSON object, at any depth; the JSON stays well formed."""
    lines = content.splitlines(keepends=True)
    whole = not lines or not lines[0].rstrip().endswith(b"}")
    place = 0 if whole else rng.randrange(len(lines))
    try:
        value = json.loads(content if whole else lines[place])
    except ValueError:
        return flip(rng, content)
    spots = list(_spots(value))
    if not spots:
        return content + b"{}\n"
    for _ in range(rng.choice((1, 1, 1, 3))):
        owner, name = rng.choice(spots)
        how = rng.random()
        if how < 0.75 or isinstance(owner, list):
            owner[name] = rng.choice(ODD)
        elif name in owner:
            kept = owner.pop(name)
            if how > 0.9:
                owner[name + "x"] = kept
    text = json.dumps(value).encode() + b"\n"
    return text if whole else b"".join([*lines[:place], text, *lines[place + 1 :]])


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield value, name
        yield from _spots(part)


CONTENT: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip,
    cut,
    shuffle,
    encode,
    deepen,
    retype,
    retype,
    retype,
)


def spoil(rng: random.Random, path: Path, victim: Path) -> str:
    """Put something else in the place of the file; return what."""
    path.unlink()
    how = rng.choice(("missing", "empty", "folder", "fifo", "loop", "link", "device", "socket"))
    if how == "empty":
        path.touch()
    elif how == "folder":
        path.mkdir()
    elif how == "fifo":
        os.mkfifo(path)
    elif how in ("loop", "link", "device"):
        path.symlink_to({"loop": path, "link": victim, "device": Path("/dev/zero")}[how])
    elif how == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(path.parent)  # the address may have 100 characters
            server.bind(path.name)
            os.chdir(here)
    return how


def mutate(rng: random.Random, folder: Path, victim: Path) -> str:
    """Change one file of the folder; return which and how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "memory" not in path.parts)
    files = [path for path in files if path.name not in ("run.lock", "replies.sqlite-wal", "replies.sqlite-shm")]
    path = rng.choice(files)
    name = str(path.relative_to(folder))
    if rng.random() < 0.1:
        return f"{name}: {spoil(rng, path, victim)}"
    change = rng.choice(CONTENT)
    path.write_bytes(change(rng, path.read_bytes()))
    return f"{name}: {change.__name__}"


# --- commands


def words_of(command: str, folder: Path, spec: str) -> list[str]:
    """Words of the command line."""
    if command == "judge run":
        return ["judge", "run", str(folder), "--judge", judge_of(spec)]
    name, *more = command.split()
    return [name, str(folder), *([str(folder)] if name == "compare" else []), *more]


def fuzz(
    count: int, seed: int, workplace: Path, commands: int | None = None, first: int = 0, show: bool = False
) -> tuple[list[Finding], Counter[str]]:
    """Mutate one file after the other.

    Args:
        count: number of mutated files.
        seed: of all draws; a case depends on the seed and its number alone.
        workplace: a folder for everything that is written.
        commands: number of commands per file, drawn; None for all.
        first: number of the first case.
        show: print findings as they come, and each case on standard error; end a case that hangs.
    """
    findings: list[Finding] = []
    outcomes = Counter[str]()
    os.environ.setdefault("OPENAI_API_KEY", "sk-planted-0123456789")
    os.environ["EMEND_CACHE"] = str(workplace / "cache")
    with Provider(answer, strike=lambda asked: "400" if "spectacles" in asked.prompt[:400] else "") as provider:
        spec = provider.spec("chat")
        whole = make_run(workplace / "whole", provider)
        victim = workplace / "victim"
        for number in range(first, first + count):
            rng = random.Random(f"{seed}/{number}")
            folder = workplace / "case"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(whole, folder)
            victim.write_bytes(VICTIM)
            mutation = mutate(rng, folder, victim)
            if show:
                watch(f"case {number} of {first} to {first + count - 1}: {mutation}", LONGEST)
            chosen = COMMANDS if commands is None else rng.sample(COMMANDS, commands)
            for command in sorted(chosen, key=COMMANDS.index):
                problem = _problem(words_of(command, folder, spec), outcomes)
                if victim.read_bytes() != VICTIM:
                    problem = "wrote through a link"
                    victim.write_bytes(VICTIM)
                if problem:
                    findings.append(Finding(number, mutation, command, problem))
                    if show:
                        print(*findings[-1], sep=" | ", flush=True)
    return findings, outcomes


def _problem(words: list[str], outcomes: Counter[str]) -> str:
    try:
        with alarm(SECONDS):
            message = run_command(words)
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcomes["defect"] += 1
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    outcomes["error" if message else "success"] += 1
    return ""


def main() -> None:
    """Fuzz, and exit with 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--commands", type=int, default=None)
    options = parser.parse_args()
    start = time.monotonic()
    with contextlib.suppress(EmendError):
        load_embedding("auto")  # which takes seconds the first time, and a mutated manifest may ask for it
    with tempfile.TemporaryDirectory() as workplace:
        findings, outcomes = fuzz(
            options.count, options.seed, Path(workplace), options.commands, options.first, show=True
        )
    seconds = time.monotonic() - start
    print(f"{options.count} mutated files, {dict(outcomes)}, {len(findings)} findings, {seconds:.0f} s")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
