"""Odd values of every option of every command: none ends in a traceback, none hangs, and wrong usage is exit code 2.

    python scripts/benchmarks/odd_options.py --count 1000 --seed 0

The commands run in this process. A quick share of the same cases is in `tests/evals/cli/test_odd_options.py`.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ.update(HF_HUB_OFFLINE="1", ANONYMIZED_TELEMETRY="False", TOKENIZERS_PARALLELISM="false")

from typer.testing import CliRunner

from emend.evals.cli.main import COMMANDS, app, load_command
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import EmendError
from emend.memory.store.chroma import ChromaMemory
from scripts.benchmarks.alarm import alarm
from tests.evals.toy_runs import TRUST, go
from tests.evals.toys import BENCHMARK, enlist

SECONDS = 10.0
"""Wait without work after which a command hangs; one that works may take twenty times that."""
ODD = (
    "", " ", "x" * 300, "x" * 5000, "a/" * 3000, "a\0b", "\n", "a\nb", "\x1b[2J", "ünï✓日本", "\udcff", "\u202e",
    "-1", "-0", "0", "1e400", "-99999999999999999999", "99999999999999999999", "1" * 5000, "nan", "inf", "-inf",
    "0.1", "true", "FILE", "FOLDER", "FIFO", "LINK", "/dev/null", "no/such/folder/x", "nowhere",
    "tests.evals.toys:nothing", "nothing:x", "json:dumps", ":", "=", "a=b", "a=", "=b", "a.b=c", "a.b=", ".=",
    "@nofile", "rag=@nofile", "rag=@FIFO", "{}", "[1]", "~nobody/x", "../..", "http://", "http://127.0.0.1:1",
    "http://[::1", "openai:", "openai:x@nowhere", "hf:", "hf:FOLDER", "a:b:c", "default>", "1,2,", "every:0",
)  # fmt: skip
"""Values; words in capitals stand for a file, folder, pipe and broken link."""
WRONG = {"nan", "1e400", "x" * 5000, "a\nb", "ünï✓日本", "\x1b[2J"}
"""Values that are never right for an option that takes a number."""


class OddCall(NamedTuple):
    """A command with one odd value: its words, the option or argument, and whether that takes a number."""

    words: tuple[str, ...]
    option: str
    numeric: bool


def prepare(folder: Path) -> dict[str, dict[str, str]]:
    """Make the files that commands work on; return each command's usual arguments and options."""
    go(folder / "run", limit=1)
    (folder / "labels.jsonl").write_text("{}\n")
    (folder / "texts.txt").write_text("The capital of Veldania is Ostrim.\n")
    edit = Edit(id="e1", form="document", text="The capital of Veldania is Ostrim.")
    (folder / "edits.jsonl").write_text(edit.model_dump_json() + "\n")
    with ChromaMemory(folder / "memory", LexicalEmbedding(), create=True) as memory:
        memory.add([edit])
    (folder / "FOLDER").mkdir()
    (folder / "FILE").write_text("text")
    os.mkfifo(folder / "FIFO")
    (folder / "LINK").symlink_to("LINK")
    (folder / "rag.toml").write_text("k = 1\n")
    data = {"--benchmark": "tinyworld", "--setting": "event", "--limit": "1", "--embedding": "lexical"}
    memory_options = {"--memory": "memory"}
    toy = {"--benchmark": BENCHMARK, "--editor": "rag", "--model": "scripted", "--embedding": "lexical", "--limit": "1"}
    return {
        "demo": {"--edits": "1", "--editor": "unedited", "--out": "NEW"},
        "run": toy | {"--out": "NEW"},
        "resume": {"folder": "run"},
        "judge run": {"folder": "run", "--judge": "scripted", "--kind": "equivalence"},
        "judge calibrate": {"labels": "labels.jsonl", "--judge": "scripted"},
        "judge stress": {"--judge": "scripted", "--kind": "equivalence"},
        "judge leniency": {"folder": "run", "--judge": "scripted", "--size": "2"},
        "judge settle": {"folder": "run", "labels": "labels.jsonl"},
        "report": {"folder": "run"},
        "trace": {"folder": "run"},
        "compare": {"run_a": "run", "run_b": "run"},
        "analyse": {"run": "run"},
        "retrieval": data | {"--strategy": "bm25"},
        "extract": data | {"--method": "rules", "--out": "NEW"},
        "train scope": data | {"--epochs": "1", "--out": "NEW"},
        "train encoder": data | {"--epochs": "1", "--out": "NEW"},
        "covariance": {"--model": "tiny", "--corpus": "texts.txt", "--layers": "1", "--cap": "16", "--out": "NEW"},
        "memory add": memory_options | {"--embedding": "lexical", "--document": "Something."},
        "memory import": memory_options | {"file": "edits.jsonl", "--embedding": "lexical"},
        "memory export": memory_options | {"file": "NEW"},
        "memory search": memory_options | {"query": "capital", "--embedding": "lexical"},
        "memory show": memory_options | {"edit_id": "e1"},
        "memory stats": memory_options,
        "memory withdraw": memory_options | {"edit_ids": "nothing"},
        "ask": memory_options | {"--model": "scripted", "--embedding": "lexical", "question": "Who?"},
        "edit": {"--model": "tiny", "--method": "ft", "--edits": "edits.jsonl", "--set": "ft.num_steps=1"}
        | {"--out": "NEW"},
        "data pull": {"name": "nothing"},
        "data check": {"target": "tinyworld"},
        "data stats": {"name": "tinyworld"},
        "graph": {"name": "rag"},
    }


def calls(usual: dict[str, dict[str, str]], seed: int = 0, commands: tuple[str, ...] = ()) -> Iterator[OddCall]:
    """Yield odd calls without end: options in turn, values drawn."""
    draw = random.Random(seed)
    options = [
        (name, option)
        for name, command in _commands()
        for option in command.params
        if not getattr(option, "is_flag", False) and (not commands or name in commands)
    ]
    number = 0
    while True:
        draw.shuffle(options)
        for name, option in options:
            number += 1
            value, flag = draw.choice(ODD), option.opts[0]
            if name == "data pull" and flag == "name" and value.strip() in ("", "nowhere"):
                continue
            words = [*name.split()]
            values = usual.get(name, {}) | {flag: value}
            command = dict(_commands())[name]
            for place in (each.opts[0] for each in command.params if each.param_type_name == "argument"):
                if place in values:
                    words.append(values.pop(place))
            for key, each in values.items():
                words += [key, each]
            if name == "resume" and flag != "--trust":
                words += TRUST
            words = [f"new{number}" if word == "NEW" else word for word in words]
            yield OddCall(tuple(words), flag, option.metavar in ("N", "X"))


def _commands() -> list[tuple[str, Any]]:
    named = []
    for name in COMMANDS.names():
        command = load_command(name)
        within = getattr(command, "commands", None)
        named += [(f"{name} {key}", each) for key, each in within.items()] if within else [(name, command)]
    return named


def problem(call: OddCall) -> str:
    """Run the call; return what is wrong with its end, empty if nothing is."""
    start, work = time.monotonic(), time.process_time()
    try:
        with alarm(20 * SECONDS):
            result = CliRunner().invoke(app, list(call.words), input="")
    except BaseException as escaped:
        return f"{type(escaped).__name__}: {escaped}"
    seconds, worked = time.monotonic() - start, time.process_time() - work
    error = result.exception
    if error is not None and not isinstance(error, EmendError | SystemExit):
        return f"{type(error).__name__}: {error}"[:300]
    if seconds > SECONDS and worked < seconds / 20:  # else it is a busy machine that works slowly
        return f"hangs: {seconds:.0f} s"
    code = 2 if isinstance(error, EmendError) else result.exit_code
    allowed = {0, 1, 2} if call.words[0] in ("doctor", "ask", "judge") else {0, 2}
    if call.numeric and WRONG & set(call.words):
        allowed = {2}
    return "" if code in allowed else f"exit code {code}"


def main() -> None:
    """Run the calls in an empty folder, and list those that end wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="append", default=[])
    options = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    os.environ["EMEND_CACHE"] = "cache"
    enlist()
    ended: dict[str, list[str]] = {}
    odd = calls(prepare(Path.cwd()), options.seed, tuple(options.command))
    for number in range(1, options.count + 1):
        call = next(odd)
        if wrong := problem(call):
            words = " ".join(repr(word)[:60] for word in call.words)
            ended.setdefault(wrong.partition(":")[0], []).append(words)
            sys.stdout.write(f"{number} {words}\n    {wrong}\n")
            sys.stdout.flush()
    counts = ", ".join(f"{len(each)} {name}" for name, each in ended.items()) or "none"
    sys.stdout.write(f"{options.count} calls, seed {options.seed}; wrong ends: {counts}\n")
    sys.exit(bool(ended))


if __name__ == "__main__":
    main()
