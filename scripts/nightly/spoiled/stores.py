"""Edit memories whose database or index somebody changed, and two processes that use one memory at once."""

import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.store.chroma import ChromaMemory
from scripts.nightly.spoiling import Case, towns

Change = Callable[[Path], None]
SQLITE = "chroma.sqlite3"
TEXTS = frozenset(edit.text for edit in towns(31))
EDITED = "UPDATE embedding_metadata SET "
STATEMENTS = {
    "trigger that changes texts": "CREATE TRIGGER t AFTER INSERT ON embedding_metadata BEGIN "
    "UPDATE embedding_metadata SET string_value = 'The mayor is Eve.' WHERE key = 'chroma:document'; END",
    "trigger that refuses": "CREATE TRIGGER t BEFORE INSERT ON embeddings BEGIN SELECT RAISE(ABORT, 'no'); END",
    "trigger that ignores": "CREATE TRIGGER t BEFORE INSERT ON embeddings_queue BEGIN SELECT RAISE(IGNORE); END",
    "trigger on segments": "CREATE TRIGGER t AFTER UPDATE ON max_seq_id BEGIN DELETE FROM segments; END",
    "view of metadata": "ALTER TABLE embedding_metadata RENAME TO m; CREATE VIEW embedding_metadata AS "
    "SELECT id, key, upper(string_value) AS string_value, int_value, float_value, bool_value FROM m",
    "generated column": "ALTER TABLE embeddings ADD COLUMN g AS (abs(-9223372036854775807 - 1))",
    "no search table": "DROP TABLE embedding_fulltext_search",
    "half a search table": "DELETE FROM embedding_fulltext_search_content WHERE id % 2",
    "entries twice": "INSERT INTO embeddings (segment_id, embedding_id, seq_id) SELECT 'x', embedding_id, seq_id "
    "FROM embeddings",
    "texts exchanged": EDITED + "string_value = (SELECT m.string_value FROM embedding_metadata m WHERE m.key = "
    "embedding_metadata.key AND m.id = 31 - embedding_metadata.id) WHERE key = 'chroma:document'",
    "edit ids rewritten": EDITED + "string_value = '0123456789abcdef' WHERE key = 'edit_id'",
    "edits as a list": EDITED + "string_value = '[]' WHERE key = 'edit'",
    "edits nested": EDITED + "string_value = replace(hex(zeroblob(50000)), '00', '[') WHERE key = 'edit'",
    "times of another type": EDITED + "string_value = 'yesterday' WHERE key = 'time'",
    "no key": "DELETE FROM embedding_metadata WHERE key = 'edit_id'",
    "ids in capitals": "UPDATE embeddings SET embedding_id = upper(embedding_id)",
    "sequence of 2^62": "UPDATE embeddings SET seq_id = seq_id + 4611686018427387904",
    "sequence of text": "UPDATE max_seq_id SET seq_id = 'later'",
    "tenant gone": "DELETE FROM tenants; DELETE FROM databases",
    "another database": "UPDATE collections SET database_id = '11111111-0000-0000-0000-000000000000'",
    "name exchanged": "UPDATE collections SET name = CASE name WHEN 'documents' THEN name || 'x' ELSE 'documents' END",
    "segments exchanged": "UPDATE segments SET scope = CASE scope WHEN 'VECTOR' THEN 'METADATA' ELSE 'VECTOR' END",
    "segment of another type": "UPDATE segments SET type = 'urn:chroma:segment/vector/hnsw-distributed'",
    "another encoder": "UPDATE collection_metadata SET str_value = 'minilm/256/0123456789ab' WHERE key = 'embedding'",
    "no encoder": "DELETE FROM collection_metadata WHERE key = 'embedding'",
    "vectors cut": "UPDATE embeddings_queue SET vector = substr(vector, 1, 7)",
    "vectors not numbers": "UPDATE embeddings_queue SET vector = replace(hex(vector), '00', 'ff')",
    "queue of operations": "UPDATE embeddings_queue SET operation = 99",
    "queue of JSON": "UPDATE embeddings_queue SET metadata = '{'",
    "queue of another": "UPDATE embeddings_queue SET topic = 'persistent://default/default/x'",
    "migration of another": "UPDATE migrations SET hash = 'x' WHERE version = 1",
    "table of a program": "CREATE TABLE notes (a); INSERT INTO notes VALUES (zeroblob(1000000))",
    "user version": "PRAGMA user_version = 99; PRAGMA application_id = 7",
    "journal in WAL": "PRAGMA journal_mode = WAL",
    "broken schema": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE embeddings (' "
    "WHERE name = 'embeddings'",
}


def changed_stores(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield uses of a changed memory; texts of an accepted one are those that were written."""
    with ChromaMemory(root / "memory", LexicalEmbedding()) as memory:
        memory.add(towns(30))
    changes: dict[str, Change] = {name: partial(with_sql, sql) for name, sql in STATEMENTS.items()}
    changes |= {
        "link to another": with_link, "folder for a database": with_folder, "pickle in the index": with_pickle,
        "index of zeros": with_zeros, "index of links": with_index_links, "no lock": without_lock,
        "lock as FIFO": with_fifo,
        "torn page": with_torn_page, "database in capitals": with_capitals,
    }  # fmt: skip
    for number, (name, change) in enumerate(islice(cycle(changes.items()), count)):
        folder = Path(shutil.copytree(root / "memory", root / str(number)))
        change(folder)
        yield f"{name} {number}", partial(use_changed, folder)


def use_changed(folder: Path) -> None:
    """Search a memory and add to it, twice; all texts are those written, and what was added is there."""
    for _ in range(2):
        with ChromaMemory(folder, LexicalEmbedding(), create=False) as memory:
            found = memory.view().nearest("Who is the mayor of Town 3?", 3)
            assert TEXTS.issuperset(hit.entry.text for hit in found), "a text was found that nobody wrote"
            memory.add(towns(31)[30:])
            texts = [edit.text for edit in memory.edits()]
            assert TEXTS.issuperset(texts), "a text is there that nobody wrote"
            assert texts.count(towns(31)[30].text) == 1, "an added edit is missing, or there twice"
    assert not (folder / "owned").exists(), "a pickle was executed"


def with_sql(statements: str, folder: Path) -> None:
    """Change the database of a memory by SQL."""
    database = sqlite3.connect(folder / SQLITE)
    database.executescript(statements)
    database.commit()
    database.close()


def with_link(folder: Path) -> None:
    """Put a link to a database elsewhere where the database was."""
    (folder / SQLITE).rename(folder.with_suffix(".elsewhere"))
    (folder / SQLITE).symlink_to(folder.with_suffix(".elsewhere"))


def with_folder(folder: Path) -> None:
    """Put a folder where the database was."""
    (folder / SQLITE).unlink()
    (folder / SQLITE).mkdir()


class Owned:
    """An object whose pickle touches a file when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        """Return the call that a reader of the pickle makes."""
        return os.system, (f"touch '{self.file}'",)


def with_pickle(folder: Path) -> None:
    """Put a pickle that runs a command into each folder of the index."""
    for index in (path for path in folder.iterdir() if path.is_dir()):
        (index / "index_metadata.pickle").write_bytes(pickle.dumps(Owned(folder / "owned")))


def with_zeros(folder: Path) -> None:
    """Write zeros over the index."""
    for file in folder.glob("*/*.bin"):
        file.write_bytes(bytes(file.stat().st_size))


def with_index_links(folder: Path) -> None:
    """Put links to an endless device where the files of the index were."""
    for file in folder.glob("*/*.bin"):
        file.unlink()
        file.symlink_to("/dev/zero")


def without_lock(folder: Path) -> None:
    """Remove the lock."""
    (folder / "emend.lock").unlink()


def with_fifo(folder: Path) -> None:
    """Put a FIFO where the lock was."""
    (folder / "emend.lock").unlink()
    os.mkfifo(folder / "emend.lock")


def with_torn_page(folder: Path) -> None:
    """Write zeros over the second half of the database's pages."""
    size = (folder / SQLITE).stat().st_size
    with (folder / SQLITE).open("r+b") as file:
        file.seek(size // 8192 * 4096)
        file.write(bytes(size // 4))


def with_capitals(folder: Path) -> None:
    """Rename the database."""
    (folder / SQLITE).rename(folder / SQLITE.upper())


WRITER = """
import sys
from pathlib import Path
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import MemoryUnavailable
from emend.memory.store.chroma import ChromaMemory
from scripts.nightly.spoiling import towns
import time
folder, start, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for number in range(start, end):
    while True:
        try:
            with ChromaMemory(folder, LexicalEmbedding()) as memory:
                memory.add(towns(number + 1)[number:])
            print(number, flush=True)
            break
        except MemoryUnavailable:
            time.sleep(0.02)
"""


def killed_writers(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield pairs of processes that add to one memory, one of which is killed or interrupted at a random moment."""
    for number in range(count):
        stop = rng.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        yield f"{stop.name} {number}", partial(kill_writer, root / str(number), stop, rng.uniform(0, 2))


def kill_writer(folder: Path, stop: signal.Signals, seconds: float) -> None:
    """Let two processes add edits, stop one of them, and check that all that was acknowledged is there once."""
    words, pipe = [sys.executable, "-c", WRITER, str(folder)], subprocess.PIPE
    processes = [
        subprocess.Popen([*words, str(start), str(start + 8)], stdout=pipe, stderr=pipe, text=True) for start in (0, 4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(seconds)
        processes[0].send_signal(stop)
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert not processes[1].returncode, f"the other writer failed: {outputs[1][1][-300:]}"
    said = {int(word) for output, _ in outputs for word in output.split() if word.isdigit()}
    with ChromaMemory(folder, LexicalEmbedding(), create=False) as memory:
        texts = [edit.text for edit in memory.edits()]
    assert len(texts) == len(set(texts)), "an edit is there twice"
    lost = {towns(number + 1)[number].text for number in said} - set(texts)
    assert not lost, f"{len(lost)} acknowledged edits are lost"
