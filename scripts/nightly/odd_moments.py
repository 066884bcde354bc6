"""Attacks at particular moments, such as Ctrl-C during an edit.

They are folders without write access, Ctrl-C during edits, concurrent writers of one memory,
nonsense from memory systems' models, and journals or stores that are corrupted between two
commands.
"""

import _thread
import ctypes
import multiprocessing
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from threading import Timer
from typing import Any

import torch

from emend.agents.llm import load_model
from emend.agents.providers.policy import CallPolicy
from emend.editors.base import NO_COST, EditorContext
from emend.editors.checkpoint.deltas import write_delta
from emend.editors.conformance import CAPITAL, CURRENCY
from emend.editors.registry import EDITORS
from emend.evals.config.measure_config import TuneConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.lines import ERRORS, RECORDS
from emend.evals.results.aggregate.database import open_database
from emend.evals.results.aggregate.rows import report
from emend.evals.results.settings_search import tune
from emend.evals.streams.conformance import EMPLOYER, ODD, TURNS
from emend.evals.streams.fairness import answer_prompt
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import MemoryUnavailable
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.store.chroma import ChromaMemory
from scripts.nightly.spoiling import Case, spoil, towns
from tests.evals.streams.extraction import write_down
from tests.evals.streams.streams import run_systems, stream_file
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel
from tests.fakes import tiny_random_lm
from tests.provider.models import asked_model
from tests.provider.protocols import Asked, Said
from tests.provider.server import Provider

CONTEXT = multiprocessing.get_context("forkserver")
# Linux capabilities with which root ignores file modes, and the version of the capability
# structures.
OVERRIDE, READ_SEARCH, CAPABILITY_VERSION = 1, 2, 0x20080522
EDITORS_OF_WEIGHTS: dict[str, dict[str, Any]] = {
    "rome": {"layers": [0], "v_num_grad_steps": 5, "prefixes": ["So. "], "covariance": "identity"},
    "memit": {"layers": [0, 1], "v_num_grad_steps": 5, "prefixes": ["So. "], "covariance": "identity"},
    "ft": {"num_steps": 8},
    "lora": {"num_steps": 8},
}
PACKAGES = {"langmem": "langmem", "mem0": "mem0", "graphiti": "graphiti_core", "amem": "agentic_memory"}
NONSENSE = ("", "null", "[]", "{}", "7", "\ud800", "x" * 1_000_000, "[" * 50_000, '{"memory": 7}', "{" * 9 + '"')
FAULTS = ("500", "401", "truncated", "reset", "wrong_schema", "length", "refusal", "empty", "page")


class Capabilities(ctypes.Structure):
    """Capabilities of a thread, in the layout of Linux's `capset`."""

    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]  # noqa: RUF012


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Make file modes apply to root too inside the `with`; Linux only."""
    if sys.platform != "linux" or os.geteuid():
        yield
        return
    library = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (Capabilities * 2)()
    library.capget(header, data)
    all_of_them = data[0].effective
    data[0].effective &= ~(1 << OVERRIDE | 1 << READ_SEARCH)
    assert library.capset(header, data) == 0
    try:
        yield
    finally:
        data[0].effective = all_of_them
        library.capset(header, data)


def read_only(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield uses of runs, memories, caches and weights without write or read access."""
    whole = root / "whole"
    config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="scripted", benchmark_options={"cases": "2"})
    run(config, whole / "run", model=ScriptedModel())
    with FactMemory(whole / "facts") as facts, ChromaMemory(whole / "edits", LexicalEmbedding()) as edits:
        facts.remember("Ann", "home city", "Bern")
        edits.add(towns(2))
    CallPolicy(cache=whole / "cache").close()
    model: Any = load_model(f"hf:{tiny_random_lm('llama', root, window=96)}", device="cpu")
    editor: Any = EDITORS.load("rome")(EditorContext(model, settings=EDITORS_OF_WEIGHTS["rome"]))
    delta = editor.solve([CAPITAL])
    uses = {
        "report": lambda folder: report(folder / "run"),
        "query": lambda folder: query(folder / "run"),
        "resume": lambda folder: run(config, folder / "run", model=ScriptedModel()),
        "new run": lambda folder: run(config, folder / "new", model=ScriptedModel()),
        "facts": lambda folder: use_facts(folder / "facts"),
        "edits": lambda folder: use_edits(folder / "edits"),
        "cache": lambda folder: CallPolicy(cache=folder / "cache").close(),
        "delta": lambda folder: write_delta(folder / "delta", delta, editor, model.lm, [CAPITAL], NO_COST, {}),
    }
    modes = ((0o500, 0o600), (0o500, 0o400), (0o700, 0o000), (0o000, 0o600))
    for number, (name, modes_of) in enumerate(islice(cycle((n, m) for m in modes for n in uses), count)):
        folder = Path(shutil.copytree(whole, root / str(number)))
        yield f"{name} {modes_of[0]:o} {modes_of[1]:o}", partial(use_bound, uses[name], folder, *modes_of)


def use_bound(use: Any, folder: Path, folders: int, files: int) -> None:
    """Use a folder after setting these modes for its folders and files."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(folders if path.is_dir() else files)
    folder.chmod(folders)
    try:
        with bound_by_modes():
            use(folder)
    finally:
        folder.chmod(0o700)


def query(folder: Path) -> None:
    """Count a run's records."""
    with open_database(folder) as tables:
        tables.query("SELECT count(*) FROM records")


def use_facts(folder: Path) -> None:
    """Read a memory of facts, then change it."""
    with FactMemory(folder) as facts:
        facts.lookup("Ann", "home city")
        facts.remember("Ann", "employer", "Aske Works")


def use_edits(folder: Path) -> None:
    """Read a memory of edits, then change it."""
    with ChromaMemory(folder, LexicalEmbedding(), create=False) as edits:
        edits.view().nearest("Who is the mayor of Town 1?", 1)
        edits.add(towns(3)[2:])


def interruptions(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield cases of Ctrl-C while an edit is computed or applied; the weights must be unchanged."""
    model: Any = load_model(f"hf:{tiny_random_lm('llama', root, window=96)}", device="cpu")
    for number, name in enumerate(islice(cycle(EDITORS_OF_WEIGHTS), count)):
        yield f"{name} {number}", partial(interrupt, model, name, rng.uniform(0.001, 0.4))


def interrupt(model: Any, name: str, seconds: float) -> None:
    """Interrupt an edit after `seconds`, compare all weights, and edit again."""
    weights = dict(model.lm.model.named_parameters())
    before = {key: weight.detach().clone() for key, weight in weights.items()}
    timer = Timer(seconds, _thread.interrupt_main)
    try:
        timer.start()
        try:
            while True:
                with EDITORS.load(name)(EditorContext(model, settings=EDITORS_OF_WEIGHTS[name])).edit([CAPITAL]):
                    pass
        finally:
            timer.join()
    except KeyboardInterrupt:
        pass
    assert all(torch.equal(before[key], weight) for key, weight in weights.items()), "weights were changed"
    assert not any("forward" in vars(module) for module in model.lm.model.modules()), "a module is patched"
    with EDITORS.load(name)(EditorContext(model, settings=EDITORS_OF_WEIGHTS[name])).edit([CURRENCY]):
        pass
    assert all(torch.equal(before[key], weight) for key, weight in weights.items()), "weights were changed"


def writers(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield cases in which two processes add edits to one memory at the same time."""
    for number in range(count):
        yield f"writers {number}", partial(write_together, root / f"memory-{number}")


def write_together(folder: Path) -> None:
    """Let two processes add ten edits each, five of them shared, and check that all are stored."""
    processes = [CONTEXT.Process(target=add_towns, args=(folder, start)) for start in (0, 5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0], "a writer failed"
    with ChromaMemory(folder, LexicalEmbedding(), create=False) as memory:
        texts = sorted(edit.text for edit in memory.edits())
    assert texts == sorted(edit.text for edit in towns(15)), f"{len(texts)} edits of 15"


def add_towns(folder: Path, start: int) -> None:
    """Add ten edits, two at a time, retrying while the other process holds the folder."""
    edits = towns(start + 10)[start:]
    while edits:
        try:
            with ChromaMemory(folder, LexicalEmbedding()) as memory:
                memory.add(edits[:2])
        except MemoryUnavailable:  # the other process holds the folder
            time.sleep(0.05)
            continue
        edits = edits[2:]


def tunings(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield tuning runs resumed from a corrupted journal, or with another configuration."""
    config = TuneConfig(
        benchmark="tinyworld", model="tiny", limit=2, train=4, trials=2, overrides={"ft": {"num_steps": 1}}
    )
    journal = root / "journal.jsonl"
    tune(config, "ft", journal)
    changes: list[dict[str, Any]] = [{}, {}, {"limit": 10**6}, {}, {"train": 10**6}, {}, {"model": "hf:nowhere"}, {}]
    for number in range(count):
        copied = Path(shutil.copy(journal, root / f"journal-{number}.jsonl"))
        change = changes[number % len(changes)]
        if not change:
            spoil(copied, rng)
        yield f"tune {change}", partial(tune, config.model_copy(update=change), "ft", copied)


def adapters(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield third-party memories over a model that fails or replies nonsense, with odd turns."""
    installed = [name for name, package in PACKAGES.items() if find_spec(package)]
    if missing := PACKAGES.keys() - installed:
        sys.stderr.write(f"not installed, and so not attacked: {', '.join(sorted(missing))}\n")
    attacks = [("reply", each) for each in NONSENSE] + [("fault", each) for each in FAULTS] + [("turns", "")]
    pairs = ((system, attack) for attack in attacks for system in installed)
    for number, (system, (form, value)) in enumerate(islice(pairs, count if installed else 0)):
        folder = root / str(number)
        folder.mkdir()
        yield f"{system}, {form} {value[:12]!r}", partial(observe, folder, system, form, value)


def observe(folder: Path, system: str, form: str, value: str) -> None:
    """Run a stream over a system and check that each question has an answer or an error."""

    def reply(asked: Asked) -> Said | str:
        written = write_down(asked)
        if form == "reply" and written is not None:
            return value
        return written or answer_prompt(asked.prompt)

    odd = (Turn(date="2025-01-07", user="a.b/../c", text=text) for text in ODD if text.strip())
    turns = [*TURNS, *odd] if form == "turns" else list(TURNS[:3])
    questions = [EMPLOYER.model_copy(update={"evidence": ()})]
    if form == "turns":
        questions.append(StreamQuestion(text="Who?", user="a.b/../c", date="2025-01-08", kind="current", gold=("x",)))
    with Provider(reply) as provider:
        provider.faults.extend([value] * 4 if form == "fault" else [])
        file = stream_file(folder, [*turns, *questions])
        run_systems(folder, system, file=file, model=asked_model(provider), fail_on_error="false")
    lines = (folder / "run" / RECORDS).read_text() + (folder / "run" / ERRORS).read_text()
    assert lines.strip(), "a question has neither an answer nor an error"


def stores(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield streams resumed over corrupted stores of memory systems."""
    (root / "whole").mkdir()
    run_systems(root / "whole", "memory", "facts")
    for number in range(count):
        folder = Path(shutil.copytree(root / "whole", root / str(number)))
        lines = (folder / "run" / RECORDS).read_text().splitlines(keepends=True)
        (folder / "run" / RECORDS).write_text("".join(lines[: len(lines) // 2]))
        kept = [path for path in (folder / "run" / "memory").rglob("*") if path.is_file() and path.stat().st_size]
        spoil(rng.choice(kept or [folder / "run" / "manifest.json"]), rng)
        yield f"store {number}", partial(run_systems, folder, "memory", "facts", file=folder / "stream.jsonl")
