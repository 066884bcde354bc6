"""Nothing of this process's memory lies in a folder beside what was stored there."""

import shutil
import threading
from pathlib import Path

import pytest

import emend.memory.store.index_files as index_files
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.index_files import HEADER, IndexFiles, clear_unused

HELD = b"held in memory alone"
EDIT = Edit(form="document", text="Lyon is twinned with Ostrim.")
ROOM = ("data_level0.bin", "length.bin")


def hold() -> None:
    """Fill the free memory from which a new index takes its room."""
    together = threading.Barrier(8, timeout=60)

    def fill() -> None:
        bytes(HELD * 1_500_000)  # once freed, blocks as large as this one are taken from what was used before
        kept = [bytes(HELD * 60_000) for _ in range(8)]
        together.wait()
        del kept

    threads = [threading.Thread(target=fill) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "memory"
    with ChromaMemory(folder, LexicalEmbedding()) as memory:
        memory.add([EDIT])
    return folder


def test_a_new_index_contains_only_stored_data(tmp_path):
    hold()
    with ChromaMemory(tmp_path, LexicalEmbedding()) as memory:
        memory.add([EDIT])
        written = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert set(ROOM) < set(written) and not [name for name, content in written.items() if HELD in content]
        assert not any(written[name].strip(b"\0") for name in ROOM)
        assert memory.view().nearest("Lyon", 1)[0].entry.text == EDIT.text


def test_leftovers_of_a_killed_process_are_cleared_on_opening(stored, tmp_path):
    folder = shutil.copytree(stored, tmp_path / "memory")
    paths = [path for name in ROOM for path in folder.glob(f"*/{name}")]
    for path in paths:
        path.write_bytes((HELD * 50_000)[: path.stat().st_size])
    with ChromaMemory(folder, LexicalEmbedding()) as memory:
        assert memory.view().nearest("Lyon", 1)[0].entry.text == EDIT.text
    assert paths and not any(HELD[:10] in path.read_bytes() for path in paths)


def test_entries_of_an_index_stay(tmp_path):
    index = tmp_path / "index"
    index.mkdir()
    (index / "header.bin").write_bytes(HEADER.pack(1, 0, 100, 2, 30) + bytes(64))
    for name, used in zip(ROOM, (60, 8), strict=True):
        (index / name).write_bytes(b"x" * 400)
        clear_unused(index / "header.bin")
        assert (index / name).read_bytes() == b"x" * used + bytes(400 - used)


@pytest.mark.parametrize("header", [HEADER.pack(2, 0, 100, 0, 30), b"", None], ids=["other layout", "empty", "missing"])
def test_an_index_of_another_layout_is_unchanged(tmp_path, header):
    index = tmp_path / "index"
    index.mkdir()
    (index / ROOM[0]).write_bytes(b"x" * 400)
    if header is not None:
        (index / "header.bin").write_bytes(header)
    with IndexFiles(tmp_path).used():
        pass
    assert (index / ROOM[0]).read_bytes() == b"x" * 400


def test_nothing_is_touched_while_the_database_is_used(tmp_path):
    index = tmp_path / "index"
    index.mkdir()
    files, room = IndexFiles(tmp_path), index / ROOM[0]
    with files.used():
        (index / "header.bin").write_bytes(HEADER.pack(1, 0, 100, 0, 30))
        room.write_bytes(b"x" * 400)
        with files.used():
            pass
        assert room.read_bytes() == b"x" * 400
    assert room.read_bytes() == bytes(400)


def test_memories_of_one_folder_wait_for_each_other(tmp_path, monkeypatch):
    cleared: list[Path] = []
    monkeypatch.setattr(index_files, "clear_unused", cleared.append)
    with ChromaMemory(tmp_path, LexicalEmbedding(64)) as one, ChromaMemory(tmp_path, LexicalEmbedding(64)) as other:
        with other._database_errors():
            one.add([EDIT])
            assert not cleared
        assert {path.name for path in cleared} == {"header.bin"}


def test_no_file_is_zeroed_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious" * 100)
    header = tmp_path / "index" / "header.bin"
    header.parent.mkdir()
    header.write_bytes(HEADER.pack(index_files.LAYOUT, 0, 1, 1, 8))
    (header.parent / "data_level0.bin").symlink_to(victim)
    with pytest.raises(BadData, match="data_level0.bin' is a symbolic link"):
        clear_unused(header)
    assert victim.read_bytes() == b"precious" * 100


def test_the_folder_of_a_memory_is_private(stored):
    assert stored.stat().st_mode & 0o777 == 0o700
    assert {(stored / name).stat().st_mode & 0o777 for name in ("emend.lock", "chroma.sqlite3")} == {0o600}


def test_a_database_is_never_opened_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.touch()
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/chroma.sqlite3").symlink_to(victim)
    with pytest.raises(BadSettings, match="chroma.sqlite3' is a symbolic link"):
        ChromaMemory(tmp_path / "memory", LexicalEmbedding())
    assert victim.read_bytes() == b""
