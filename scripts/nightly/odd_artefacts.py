"""Attacks by files that somebody else made: edit artefacts, folders of memories, dumps, journals, configurations."""

import bz2
import gzip
import hashlib
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from emend.agents.llm import load_model
from emend.editors.base import NO_COST, EditorContext
from emend.editors.checkpoint.deltas import MANIFEST, TENSORS, read_delta, read_manifest, write_delta
from emend.editors.checkpoint.edited_model import save_edited
from emend.editors.conformance import CAPITAL
from emend.editors.registry import EDITORS
from emend.evals.config.measure_config import TuneConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.wikidata.dump import read_updates
from emend.evals.data.facts.relation_tables import Relations
from emend.evals.evaluate.run import run
from emend.evals.log.lines import RECORDS
from emend.evals.results.settings_search import read_journal, tune
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import EmendError
from emend.memory.store.chroma import ChromaMemory
from scripts.nightly.spoiling import Case, towns
from tests.evals.construction.wikidata.entities import dump_of, entity, statement
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel
from tests.fakes import tiny_random_lm

Tensors = dict[str, Any]
Change = Callable[[Path], None]
SQLITE = "chroma.sqlite3"


def artefacts(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield reads of deltas that are whole by their digest, and hold what no editor writes."""
    model: Any = load_model(f"hf:{tiny_random_lm('llama', root, window=96)}", device="cpu")
    settings = {"layers": [0], "v_num_grad_steps": 2, "prefixes": ["So. "], "covariance": "identity"}
    editor: Any = EDITORS.load("rome")(EditorContext(model, settings=settings))
    write_delta(root / "delta", editor.solve([CAPITAL]), editor, model.lm, [CAPITAL], NO_COST, {"emend": "0"})
    left, right = sorted(load_file(root / "delta" / TENSORS))
    for number, (name, change) in enumerate(islice(cycle(changes_of_delta(left, right).items()), count)):
        folder = Path(shutil.copytree(root / "delta", root / str(number)))
        change(folder)
        yield f"{name} {number}", partial(use_delta, folder, model, root / f"model-{number}")


def changes_of_delta(left: str, right: str) -> dict[str, Change]:
    """Return ways of making a delta odd, by name."""
    path = left.partition(":")[0]
    tensors: dict[str, Callable[[Tensors], Tensors]] = {
        "not a number": lambda held: held | {left: held[left] * float("nan")},
        "infinity": lambda held: held | {right: held[right] / 0},
        "factors exchanged": lambda held: {left: held[right].T.contiguous(), right: held[left].T.contiguous()},
        "left alone": lambda held: {left: torch.zeros(held[left].shape[0], held[left].shape[0])},
        "right alone": lambda held: {right: held[right]},
        "no tensor": lambda held: {},
        "scalars": lambda held: {name: torch.tensor(1.0) for name in held},
        "integers": lambda held: {name: tensor.int() for name, tensor in held.items()},
        "float8": lambda held: {name: tensor.to(torch.float8_e4m3fn) for name, tensor in held.items()},
        "complex numbers": lambda held: {name: tensor.to(torch.complex64) for name, tensor in held.items()},
        "one row more": lambda held: held | {left: torch.cat([held[left], held[left][:1]])},
        "unknown module": lambda held: held | {"model.no.such.weight:whole": torch.zeros(3)},
        "escape sequence": lambda held: held | {"\x1b[2J\n:whole": torch.zeros(3)},
        "attribute": lambda held: held | {"model.__class__:left": torch.zeros(3, 1), "model.__class__:right": ONE_ROW},
        "norm as factors": lambda held: {"model.norm:left": torch.zeros(8, 1), "model.norm:right": torch.zeros(1, 8)},
        "both forms": lambda held: held | {f"{path}.weight:whole": torch.zeros(2, 2)},
        "rank 5000": lambda held: {
            left: torch.zeros(held[left].shape[0], 5000),
            right: torch.zeros(5000, held[right].shape[1]),
        },
        "rank 0": lambda held: {left: held[left][:, :0].contiguous(), right: held[right][:0].contiguous()},
        "largest numbers": lambda held: {name: torch.full_like(tensor, 3e38) for name, tensor in held.items()},
    }
    changes: dict[str, Change] = {name: partial(with_tensors, change) for name, change in tensors.items()}
    changes |= {
        "header of 2^60 bytes": partial(with_bytes, (2**60).to_bytes(8, "little") + b"{}"),
        "header of a huge tensor": partial(with_bytes, huge_header(left)),
        "pickle": partial(with_bytes, b"\x80\x04cos\nsystem\n(S'touch owned'\ntR."),
        "another model": partial(with_field, "model", "hf:other@0123456789abcdef/float32-cpu"),
        "no model": partial(with_field, "model", ""),
        "another format": partial(with_field, "format", 2),
        "numbers for edits": partial(with_field, "edits", [1, 2]),
        "20,000 edits": partial(with_field, "edits", [{"form": "document", "text": "x"}] * 20_000),
        "deep fingerprint": with_deep_manifest,
        "FIFO": partial(with_fifo, TENSORS),
        "FIFO as manifest": partial(with_fifo, MANIFEST),
        "folder": with_folder,
        "link to a device": with_device,
    }
    return changes


ONE_ROW = torch.zeros(1, 3)


def with_tensors(change: Callable[[Tensors], Tensors], folder: Path) -> None:
    """Change the tensors of a delta, and its digest with them."""
    held = load_file(folder / TENSORS)
    save_file({name: tensor.clone() for name, tensor in change(held).items()}, folder / TENSORS)
    sign(folder)


def with_bytes(content: bytes, folder: Path) -> None:
    """Replace the tensor file of a delta, and its digest with it."""
    (folder / TENSORS).write_bytes(content)
    sign(folder)


def sign(folder: Path) -> None:
    """Write the digest of the tensor file into the manifest."""
    with_field("sha256", hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest(), folder)


def with_field(name: str, value: Any, folder: Path) -> None:
    """Change a field of a delta's manifest."""
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {name: value}))


def with_deep_manifest(folder: Path) -> None:
    """Nest the manifest deeply."""
    (folder / MANIFEST).write_text('{"fingerprint":' + '{"a":' * 100_000 + "1" + "}" * 100_001)


def with_fifo(name: str, folder: Path) -> None:
    """Put a FIFO where a file was."""
    (folder / name).unlink()
    os.mkfifo(folder / name)


def with_folder(folder: Path) -> None:
    """Put a folder where the tensors were."""
    (folder / TENSORS).unlink()
    (folder / TENSORS).mkdir()


def with_device(folder: Path) -> None:
    """Put a link to an endless device where the tensors were."""
    (folder / TENSORS).unlink()
    (folder / TENSORS).symlink_to("/dev/zero")


def huge_header(name: str) -> bytes:
    """Return a safetensors file that announces a tensor of a terabyte."""
    tensor = {"dtype": "F32", "shape": [2**19, 2**19], "data_offsets": [0, 2**40]}
    header = json.dumps({name: tensor}).encode()
    return len(header).to_bytes(8, "little") + header


def use_delta(folder: Path, model: Any, target: Path) -> None:
    """Save an edited model with a delta; a refused one must leave no model behind."""
    before = {name: weight.detach().clone() for name, weight in model.lm.model.named_parameters()}
    try:
        read_manifest(folder)
        deltas = read_delta(folder, model.lm)
        save_edited(model.lm, deltas, read_manifest(folder), target)
    except EmendError:
        assert not target.exists(), "half a model is left"
        raise
    finally:
        now = dict(model.lm.model.named_parameters())
        assert all(torch.equal(weight, now[name]) for name, weight in before.items()), "weights were changed"
    assert deltas, "a delta of nothing was accepted"


def foreign_stores(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield uses of folders that are half a memory of edits, or another program's."""
    with ChromaMemory(root / "memory", LexicalEmbedding()) as memory:
        memory.add(towns(30))
    for number, (name, change) in enumerate(islice(cycle(changes_of_store().items()), count)):
        folder = Path(shutil.copytree(root / "memory", root / str(number)))
        change(folder)
        yield f"{name} {number}", partial(use_store, folder)


def changes_of_store() -> dict[str, Change]:
    """Return ways of making the folder of a memory odd, by name."""
    statements = {
        "a view": "ALTER TABLE embeddings RENAME TO hidden; CREATE VIEW embeddings AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n",
        "a trigger": "CREATE TRIGGER t AFTER INSERT ON embeddings BEGIN DELETE FROM embedding_metadata; END",
        "no segments": "DELETE FROM segments",
        "no collections": "DELETE FROM collections",
        "no entries": "DELETE FROM embedding_metadata",
        "half of the entries": "DELETE FROM embeddings WHERE id % 2",
        "no queue": "DELETE FROM embeddings_queue",
        "other tables": "DROP TABLE embeddings; CREATE TABLE embeddings (a, b, c)",
        "later migrations": "UPDATE migrations SET version = version + 100",
        "odd documents": "UPDATE embedding_metadata SET string_value = x'ff00fe'",
        "numbers for text": "UPDATE embedding_metadata SET string_value = NULL, int_value = 7",
        "other dimension": "UPDATE collections SET dimension = 7",
        "odd collection": "UPDATE collections SET name = 'strangers-' || name, config_json_str = '{'",
        "odd settings": "UPDATE collection_metadata SET str_value = 'x'",
    }
    changes: dict[str, Change] = {name: partial(with_sql, sql) for name, sql in statements.items()}
    return changes | {
        "foreign files": with_foreign_files,
        "empty database": partial(with_content, SQLITE, b""),
        "half a database": lambda folder: os.truncate(folder / SQLITE, (folder / SQLITE).stat().st_size // 2),
        "no database": lambda folder: (folder / SQLITE).unlink(),
        "no index": without_index,
        "another program's": lambda folder: sqlite3.connect(folder / SQLITE).close(),
        "FIFO": partial(with_fifo, SQLITE),
        "foreign journal": partial(with_content, f"{SQLITE}-journal", b"\xd9\xd5\x05" * 999),
    }


def with_content(name: str, content: bytes, folder: Path) -> None:
    """Write a file of a memory's folder anew."""
    (folder / name).write_bytes(content)


def with_sql(statements: str, folder: Path) -> None:
    """Change the database of a memory by SQL."""
    database = sqlite3.connect(folder / SQLITE)
    database.executescript(statements)
    database.close()


def with_foreign_files(folder: Path) -> None:
    """Put files, folders and links of others beside a memory."""
    (folder / "notes.txt").write_text("not yours")
    (folder / "0123-4567").mkdir()
    (folder / "header.bin").write_bytes(b"\0" * 100)
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")


def without_index(folder: Path) -> None:
    """Remove the folders of a memory's index."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def use_store(folder: Path) -> None:
    """Search a memory and add to it; what is added must be there, and files of others too."""
    others = {path: path.read_bytes() for path in folder.glob("notes.txt")}
    with ChromaMemory(folder, LexicalEmbedding(), create=False) as memory:
        memory.view().nearest("Who is the mayor of Town 3?", 3)
        memory.add(towns(31)[30:])
        assert towns(31)[30].text in [edit.text for edit in memory.edits()], "an added edit is missing"
    assert all(path.read_bytes() == content for path, content in others.items()), "another's file was changed"


def archives(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield readings of compressed dumps that are bombs, of another format, or no files."""
    claims = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]
    whole = dump_of(*(entity(f"Q{1000 + number}", f"Land{number}", claims) for number in range(20)))
    packed, zeros = gzip.compress(whole), bytes(200_000_000)
    contents = {
        "bomb.json.bz2": bz2.compress(b"[\n" + zeros),
        "bomb-in-bomb.json.gz": gzip.compress(gzip.compress(zeros)),
        "many-members.json.gz": gzip.compress(b"") * 200_000 + packed,
        "many-streams.json.bz2": bz2.compress(b"") * 100_000 + bz2.compress(whole),
        "long-name.json.gz": packed[:3] + b"\x08" + packed[4:10] + b"n" * 30_000_000 + b"\0" + packed[10:],
        "rest.json.gz": packed + b"garbage" * 999,
        "no-end.json.gz": packed[:-8],
        "other-sum.json.gz": packed[:-8] + b"\0" * 8,
        "gzip.json.bz2": packed,
        "bzip2.json.gz": bz2.compress(whole),
        "plain.json.gz": whole,
        "archive.json.zip": b"PK\x03\x04" + packed,
        "marks.json": b"\xef\xbb\xbf" * 1_000_000 + whole,
        "blank.json": b"[\n" + b"\n" * 20_000_000,
        "commas.json": b"[\n" + b",\n" * 5_000_000,
        "one-item.json": dump_of(entity("Q1", "L" * 50_000_000, claims)),
        "claims.json": dump_of(entity("Q1", "Land", claims * 20_000)),
        "dates.json": whole.replace(b"+2022-10-25T", b"+99999999999-00-00T"),
        "keys.json": dump_of(b'{"id":"Q1",' + b",".join(b'"P%d":1' % number for number in range(1_000_000)) + b"}"),
    }
    names = [*contents, "fifo", "folder", "zero", "state"]
    for number, name in enumerate(islice(cycle(names), count)):
        (folder := root / str(number)).mkdir()
        file = folder / name
        if name in contents:
            file.write_bytes(contents[name])
        elif name == "fifo":
            os.mkfifo(file)
        elif name == "folder":
            file.mkdir()
        elif name == "zero":
            file.symlink_to("/dev/zero")
        else:
            file.write_bytes(packed)
            write_odd_state(folder / "state.sqlite", file)
        yield f"{name} {number}", partial(read_dump, file, folder / "state.sqlite")


def read_dump(file: Path, state: Path) -> None:
    """Read a dump twice with one state; both readings have the same updates."""
    readings = [list(read_updates(file, date(2021, 4, 1), Relations.read(), workers=1, state=state)) for _ in "12"]
    assert readings[0] == readings[1], "a second reading has other updates"


def write_odd_state(state: Path, file: Path) -> None:
    """Write the state of a reading with values of other types."""
    list(read_updates(file, date(2021, 4, 1), Relations.read(), workers=1, state=state))
    database = sqlite3.connect(state)
    database.executescript(
        "UPDATE facts SET value = '[' WHERE name LIKE '%end'; UPDATE changes SET fields = '{}'; "
        "UPDATE objects SET aliases = '7'"
    )
    database.close()


TUNING = TuneConfig(benchmark="tinyworld", model="tiny", limit=2, train=4, trials=2, overrides={"ft": {"num_steps": 1}})


def journals(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield searches of settings that go on from a journal that is none, or somebody else's."""
    whole = root / "journal.jsonl"
    tune(TUNING, "ft", whole)
    lines = whole.read_text().splitlines(keepends=True)
    first = json.loads(lines[0])
    texts = {
        "lines twice": "".join(lines * 2),
        "half": "".join(lines[: len(lines) // 2]),
        "torn": "".join(lines)[:-30],
        "score of 10^9": json.dumps(first | {"score": 1e9}) + "\n",
        "score not a number": json.dumps(first | {"score": float("nan")}) + "\n",
        "unknown settings": json.dumps(first | {"settings": {"__class__": "os"}}) + "\n",
        "escape sequence": json.dumps(first | {"problem": "\x1b[2J\n" * 99}) + "\n",
        "binary": "\x00\x01\x02" * 99 + "\n",
        "long line": json.dumps(first | {"problem": "x" * 30_000_000}) + "\n",
        "blank lines": "\n" * 99 + "".join(lines),
        "deep line": "[" * 100_000 + "\n",
    }
    for number, name in enumerate(islice(cycle([*texts, "fifo", "folder", "link"]), count)):
        journal = root / f"journal-{number}"
        if name in texts:
            journal.write_text(texts[name])
        elif name == "fifo":
            os.mkfifo(journal)
        elif name == "folder":
            journal.mkdir()
        else:
            journal.symlink_to(root / "nowhere" / "x")
        yield f"{name} {number}", partial(search, journal)


def search(journal: Path) -> None:
    """Search settings; afterwards each trial is in the journal once."""
    tune(TUNING, "ft", journal)
    keys = [trial.key for trial in read_journal(journal)]
    assert len(keys) == len(set(keys)), "a trial is there twice"


def configurations(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield resumptions of unfinished runs whose data or configuration changed in between."""
    fields: dict[str, Any] = {
        "benchmark": BENCHMARK, "editors": (EDITOR,), "model": "scripted", "benchmark_options": {"cases": "6"},
    }  # fmt: skip
    run(RunConfig.model_validate(fields), root / "run", model=ScriptedModel())
    lines = (root / "run" / RECORDS).read_text().splitlines(keepends=True)
    (root / "run" / RECORDS).write_text("".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:40])
    changes: list[dict[str, Any]] = [
        {}, {"seed": 1}, {"limit": 2}, {"benchmark_options": {"cases": "5"}}, {"benchmark_options": {"probes": "0"}},
        {"mode": "sequential"}, {"mode": "batch:2"}, {"repeats": 2}, {"editors": ("unedited", EDITOR)},
        {"overrides": {"model": {"temperature": 1}}}, {"mode": "sequential", "reevaluate_at": "end"},
        {"retriever": "bm25"},
    ]  # fmt: skip
    for number, change in enumerate(islice(cycle(changes), count)):
        folder = Path(shutil.copytree(root / "run", root / str(number)))
        yield f"{change} {number}", partial(resume_half, fields | change, folder, lines)


def resume_half(fields: dict[str, Any], folder: Path, whole: list[str]) -> None:
    """Resume half a run: it ends with all records once, or is refused and keeps those it had."""
    config = RunConfig.model_validate(fields)
    before = (folder / RECORDS).read_bytes()
    try:
        run(config, folder, model=ScriptedModel())
    except EmendError:
        assert (folder / RECORDS).read_bytes() == before, "records were changed by a refused run"
        raise
    records = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    units = {(record["unit"], record["probe"]) for record in records}
    assert len(units) == len(records) >= len(whole), f"{len(records)} records of {len(units)} questions"
