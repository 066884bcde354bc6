"""Mutated benchmark files of all six formats: no traceback, no hang, no wrong exit code, and check and loader agree.

    python scripts/benchmarks/fuzz_data_files.py --count 1000 --seed 18

A mutant is one file of a small folder, damaged in one or two ways. `emend data check` has to end with 0 or 2, a loader
may only raise Emend's own errors, and what the check finds nothing wrong with has to load. Every 20th mutant also goes
through `emend run`, which has to end with 0, or with 2 and one line that says why.
"""

import argparse
import csv
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from emend.evals.cli.main import main as emend  # noqa: E402
from emend.evals.data.benchmarks.registry import BENCHMARKS  # noqa: E402
from emend.evals.data.shapes import SHAPES, Shape  # noqa: E402
from emend.evals.log.manifest import Manifest  # noqa: E402
from emend.memory.errors import BadData, BadSettings, EmendError, MissingData  # noqa: E402
from scripts.benchmarks.alarm import alarm  # noqa: E402

SECONDS = 60
RUN_EVERY = 20
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    3.5,
    "",
    " ",
    "\x00",
    "\x1b[31m",
    "{}",
    [],
    {},
    [[]],
    {"a": 1},
    "é" * 9,
)
RAW_VALUES = (
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "9" * 5000,
    "1" * 60,
    '"\\ud800"',
    '"\\u0000"',
    "[" * 400 + "]" * 400,
)
"""Values that Python's `json.dumps` does not write, in the place of a value."""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def edit(content: Any, rng: random.Random) -> None:
    """Replace, drop, swap, rename, repeat, wrap or lengthen a value."""
    everywhere = list(places(content)) or [({"": ""}, "")]
    container, key = rng.choice(everywhere)
    kind = rng.choice(("replace", "replace", "drop", "swap", "rename", "repeat", "wrap", "lengthen"))
    if kind == "replace":
        container[key] = rng.choice(ODD_VALUES)
    elif kind == "drop":
        del container[key]
    elif kind == "swap":
        other, name = rng.choice(everywhere)
        container[key], other[name] = deepcopy(other[name]), deepcopy(container[key])
    elif kind == "rename":
        fields = [place for place in everywhere if isinstance(place[0], dict)]
        container, key = rng.choice(fields or [({"": ""}, "")])
        container[rng.choice((key.upper(), f"{key}es", "", "id"))] = container.pop(key)
    elif kind == "repeat":
        lists = [place for place in everywhere if isinstance(place[0], list)]
        items, place = rng.choice(lists or [([""], 0)])
        items.append(items[place])
    elif kind == "wrap":
        for _ in range(rng.choice((1, 2, 150, 400))):
            container[key] = [container[key]]
    else:
        container[key] = "word " * 200_000


def edited(text: str, rng: random.Random) -> bytes:
    """The JSON with one or two values changed."""
    content = json.loads(text)
    for _ in range(rng.choice((1, 1, 2))):
        edit(content, rng)
    return json.dumps(content, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def raw_value(text: str, rng: random.Random) -> bytes:
    """A value that is hardly JSON in the place of one."""
    content = json.loads(text)
    container, key = rng.choice(list(places(content)))
    container[key] = "@here@"
    return json.dumps(content).replace('"@here@"', rng.choice(RAW_VALUES)).encode()


def flipped(text: str, rng: random.Random) -> bytes:
    """Bytes changed, put in or taken out."""
    raw = bytearray(text.encode())
    for _ in range(rng.choice((1, 3, 30))):
        at = rng.randrange(len(raw))
        raw[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    return bytes(raw)


def cells_edited(text: str, rng: random.Random) -> bytes:
    """The table in text with one or two cells replaced, dropped or repeated, the header's among them."""
    rows = list(csv.reader(io.StringIO(text)))
    for _ in range(rng.choice((1, 1, 2))):
        row = rng.choice(rows)
        position = rng.randrange(len(row)) if row else 0
        row[position : position + 1] = rng.choice(([str(rng.choice(ODD_VALUES))], [], row[position : position + 1] * 2))
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    return table.getvalue().encode("utf-8", "surrogatepass")


# Faults of a text of any form.
TEXT_EDITS: tuple[Callable[[str, random.Random], bytes], ...] = (
    *[flipped] * 3,
    lambda text, rng: text.encode()[: rng.randrange(len(text))],
    lambda text, rng: text.encode()[: rng.randrange(len(text))],
    lambda text, rng: text.encode(rng.choice(("utf-16", "utf-16-le", "utf-8-sig", "utf-32"))),
    lambda text, rng: text.encode() + rng.choice((b"\x00", b"\xff", b"]", b"{}", b"\n" * 99, text.encode())),
    lambda text, rng: rng.choice((b"", b"[]", b"{}", b'{"data": []}', b"null", b"7", b'"x"', b"[[]]", b"[{}]")),
    lambda text, rng: b"[" * rng.choice((300, 100_000)) + rng.choice((b"", b"]" * 300)),
    lambda text, rng: b'{"data": ' * rng.choice((2, 300, 50_000)) + text.encode(),
)
JSON_EDITS = (*[edited] * 9, *[raw_value] * 3, *TEXT_EDITS)
CSV_EDITS = (*[cells_edited] * 12, *TEXT_EDITS)


def damaged(path: Path, rng: random.Random) -> bytes:
    """The contents of a file with a fault; of a table in binary form some bytes are others, or its end is missing."""
    if path.suffix != ".parquet":
        edits = CSV_EDITS if path.suffix == ".csv" else JSON_EDITS
        return rng.choice(edits)(path.read_text("utf-8"), rng)
    raw = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        return bytes(raw[: rng.randrange(len(raw))])
    for _ in range(rng.choice((1, 3, 30))):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


def special(path: Path, kind: str) -> None:
    """Something else than a regular file in the place of one."""
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"loop": path, "broken": path.with_name("none"), "device": Path("/dev/zero")}[kind])


SPECIAL = ("fifo", "folder", "loop", "broken", "device")


def mutant(folder: Path, rng: random.Random) -> tuple[str, Shape, Path]:
    """Copy a benchmark's folder and damage one of its files; returns benchmark, shape and folder."""
    name = rng.choice(sorted(SHAPES))
    source = ROOT / "tests" / "data" / name
    shape = rng.choice([shape for shape in SHAPES[name] if shape.find(source)])
    target = Path(shutil.copytree(source, folder / name))
    path = target / str(shape.find(source))
    if rng.random() < 0.04:
        special(path, rng.choice(SPECIAL))
    else:
        path.write_bytes(damaged(path, rng))
    return name, shape, target


def call(*words: str) -> tuple[int, str]:
    """Exit code and standard error of a command in this process."""
    errors, argv = io.StringIO(), sys.argv
    sys.argv = ["emend", *words]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(errors):
            emend()
    except SystemExit as end:
        return int(end.code or 0), errors.getvalue()
    finally:
        sys.argv = argv
    return 0, errors.getvalue()


def outcome_of(name: str, shape: Shape, folder: Path, run: bool) -> str:
    """How the mutant ended, in a word.

    Raises:
        AssertionError: a wrong exit code, several lines of error, or check and loader do not agree.
        Exception: any error that Emend should have caught.
    """
    with alarm(SECONDS):
        code, errors = call("data", "check", name, "--data", str(folder))
    assert code in (0, 2) and errors.count("\n") <= 1, f"check ends with {code}: {errors[-300:]}"
    problem: EmendError | None = None
    refused: dict[str, EmendError] = {}
    with alarm(SECONDS):
        try:
            benchmark = BENCHMARKS.load(name)(folder, dict(shape.options))
            for setting in benchmark.settings:
                try:
                    for case in benchmark.cases(setting):
                        assert case.probes
                except BadSettings:
                    continue  # a setting that does not fit the options
                except BadData as error:
                    refused[setting] = problem = error
            assert json.dumps(benchmark.provenance)
        except EmendError as error:
            problem = error
    assert code == 2 or problem is None or isinstance(problem, MissingData), f"check finds nothing, but: {problem}"
    if run:
        options = [word for key, value in shape.options.items() for word in ("--benchmark-option", f"{key}={value}")]
        words = ["--benchmark", name, "--data", str(folder), *options, "--editor", "in_context", "--limit", "1"]
        with alarm(6 * SECONDS):
            code, errors = call("run", *words, "--model", "tiny", "--out", str(folder.with_name("run")))
        assert code in (0, 2) and "Traceback" not in errors, f"run ends with {code}: {errors[-300:]}"
        assert code == 0 or "error: " in errors.splitlines()[-1], errors[-300:]
        assert code == 0 or problem is not None, f"run ends with {code}, and every setting loads"
        read = set(Manifest.read(folder.with_name("run")).cases) if code == 0 else set[str]()
        assert not read & refused.keys(), f"run ends with 0: {problem}"
        assert not isinstance(problem, BadData) or refused or code == 2, f"run ends with {code}: {problem}"
    return type(problem).__name__ if problem else "loads" if code == 0 else "loads, and the check finds a fault"


def storm(count: int, seed: int, run_every: int = RUN_EVERY) -> tuple[Counter[str], list[str]]:
    """The outcomes of `count` mutants, and what went wrong."""
    outcomes: Counter[str] = Counter()
    problems = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            name, shape, target = mutant(Path(folder), random.Random(f"{seed} {number}"))
            try:
                outcomes[outcome_of(name, shape, target, bool(run_every) and number % run_every == 0)] += 1
            except Exception as error:
                problems.append(f"mutant {number} of seed {seed}, {name}: {type(error).__name__}: {str(error)[:400]}")
    return outcomes, problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="number of mutants; default: 1000")
    parser.add_argument("--seed", type=int, default=18, help="random seed; default: 18")
    options = parser.parse_args()
    counted, wrong = storm(options.count, options.seed)
    print(*(f"{number:6,} {what}" for what, number in counted.most_common()), *wrong, sep="\n")
    print(f"{options.count:6,} mutants, {len(wrong)} problems")
    sys.exit(bool(wrong))
