"""Files are opened only if they are regular, without waiting, and new ones are private."""

import errno
import os
import select
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import tracemalloc
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emend.memory import files
from emend.memory.errors import BadData, BadSettings
from emend.memory.files import (
    connect_database,
    empty_database,
    open_file,
    open_lines,
    private_folder,
    read_file,
    read_input,
    replace_file,
    use_write_ahead_log,
    write_export,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
MODES = ("rb", "r+b", "wb", "ab")


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def link_to_file(path):
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.symlink_to(victim)


def listening_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


ODD: dict[str, Any] = {
    "a symbolic link": link_to_file,
    "loop": lambda path: path.symlink_to(path),
    "a FIFO": os.mkfifo if hasattr(os, "mkfifo") else None,
    "a folder": lambda path: path.mkdir(),
    "a socket": listening_socket,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_regular_file_is_named_and_left_alone(kind, mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    path = tmp_path / "events.jsonl"
    ODD[kind](path if kind != "a socket" else path.relative_to(tmp_path))
    with pytest.raises(BadData, match=rf"events.jsonl' is .*{'a symbolic link' if kind == 'loop' else kind}"):
        open_file(path, mode)
    victim = tmp_path / "victim"
    assert not victim.exists() or victim.read_text() == "precious"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="/dev/zero")
def test_an_input_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(files, "LARGEST_INPUT", 1_000)
    with pytest.raises(BadData, match="'/dev/zero' has more than 1,000 bytes"):
        read_input(Path("/dev/zero"))


def test_a_short_input_takes_little_memory_and_a_long_pipe_is_read_whole(tmp_path):
    (tmp_path / "short").write_bytes(b"short")
    tracemalloc.start()
    try:
        assert read_input(tmp_path / "short") == read_file(tmp_path / "short") == b"short"
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    content = bytes(range(256)) * 9_000
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # lets the writer open it before it is read
    writer.start()
    try:
        assert select.select([reader], [], [], 9)[0]
        assert read_input(tmp_path / "pipe") == content
    finally:
        os.close(reader)
        writer.join(9)


@pytest.mark.parametrize("links", [False, True])
def test_devices_and_loops_are_refused_even_where_links_are_followed(links, tmp_path):
    with pytest.raises(BadData, match="'/dev/null' is a device"):
        open_file(Path("/dev/null"), "ab", links=links)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(BadData, match="a symbolic link"):
        open_file(loop, links=links)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "to-fifo").symlink_to(fifo)
    with pytest.raises(BadData, match="a FIFO" if links else "a symbolic link"):
        open_file(tmp_path / "to-fifo", links=links)


def test_links_are_followed_where_the_user_names_the_file_and_a_missing_one_is_pythons_own_error(tmp_path):
    link_to_file(tmp_path / "data.json")
    with open_file(tmp_path / "data.json", links=True) as file:
        assert file.read() == b"precious"
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none")


@pytest.mark.parametrize("name", ["x" * 300, "nul\0", "half\ud800"])
def test_impossible_names_are_named(name, tmp_path):
    for attempt in (lambda: open_file(tmp_path / name, "ab"), lambda: private_folder(tmp_path / name)):
        with pytest.raises(BadData, match="is not a valid file name"):
            attempt()


@pytest.mark.parametrize("mode", ["wb", "ab", "xb"])
def test_new_files_and_folders_are_private_and_old_ones_keep_their_mode(mode, tmp_path):
    folder = private_folder(tmp_path / "a" / "run")
    with open_file(folder / "records.jsonl", mode) as file:
        file.write(b"one")
    assert (mode_of(folder), mode_of(folder / "records.jsonl")) == (0o700, 0o600)
    os.chmod(folder, 0o755)
    os.chmod(folder / "records.jsonl", 0o644)
    private_folder(folder)
    with open_file(folder / "records.jsonl", "wb" if mode == "xb" else mode, buffering=0) as file:
        file.write(b"two")
    assert (mode_of(folder), mode_of(folder / "records.jsonl")) == (0o755, 0o644)
    assert (folder / "records.jsonl").read_bytes() == (b"onetwo" if mode == "ab" else b"two")


def test_a_link_or_a_file_is_no_private_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    assert private_folder(tmp_path / "link", links=True).is_dir()
    for name in ("link", "file"):
        with pytest.raises(BadData, match=f"{name}' is"):
            private_folder(tmp_path / name)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    for path in (tmp_path / "nowhere", tmp_path / "nowhere" / "run"):
        with pytest.raises(BadData, match="not a folder"):
            private_folder(path, links=True)


def test_a_folder_that_is_removed_while_it_is_looked_at_is_made(tmp_path, monkeypatch):
    folder, is_dir = tmp_path / "run", Path.is_dir
    folder.mkdir()

    def removed(path):
        if path == folder and is_dir(folder):
            folder.rmdir()
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", removed)
    private_folder(folder)
    assert is_dir(folder)


def test_a_large_file_of_holes_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    if (tmp_path / "holes").stat().st_blocks:
        pytest.skip("this file system writes holes")
    for mode in ("rb", "r+b", "ab"):
        with pytest.raises(BadData, match=r"has 1,099,511,627,776 bytes, of which only 0 are on the disk"):
            open_file(tmp_path / "holes", mode)
    open_file(tmp_path / "holes", "wb").close()
    assert (tmp_path / "holes").stat().st_size == 0


def test_a_replaced_file_is_whole_and_no_link_is_followed(tmp_path, monkeypatch):
    link_to_file(tmp_path / "manifest.json")
    replace_file(tmp_path / "manifest.json", b"{}")
    assert (tmp_path / "manifest.json").read_bytes() == b"{}" and not (tmp_path / "manifest.json").is_symlink()
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123abcd")
    (tmp_path / "manifest.json.0123abcd.new").symlink_to(tmp_path / "victim")
    with pytest.raises(BadData, match="a symbolic link"):
        replace_file(tmp_path / "manifest.json", b"[]")
    assert (tmp_path / "victim").read_text() == "precious" and mode_of(tmp_path / "manifest.json") == 0o600


def test_a_file_that_is_replaced_twice_at_once_is_whole_and_no_draft_is_left(tmp_path, monkeypatch):
    path, meanwhile, sync = tmp_path / "manifest.json", [b"second"], os.fsync

    def sync_after_another(descriptor):
        if meanwhile:
            replace_file(path, meanwhile.pop())
            assert path.read_bytes() == b"second"
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_after_another)
    replace_file(path, b"first")
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_stays_as_it_was_without_a_draft(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    path.write_bytes(b"first")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"second")
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


def test_an_export_keeps_the_link_and_the_mode_of_the_file_and_takes_the_users_mode_if_it_is_new(tmp_path):
    kept, umask = tmp_path / "kept.txt", os.umask(0o022)
    os.umask(umask)
    kept.write_bytes(b"old")
    kept.chmod(0o640)
    (tmp_path / "link.txt").symlink_to("kept.txt")
    write_export(tmp_path / "link.txt", "new \u00e9")
    assert (tmp_path / "link.txt").is_symlink() and kept.read_text("utf-8") == "new \u00e9" and mode_of(kept) == 0o640
    with pytest.raises(BadSettings, match=r"cannot write .*no/such.*\. Name another file\."):
        write_export(tmp_path / "no/such", "")
    write_export(tmp_path / "no/such", b"made", parents=True)
    assert (tmp_path / "no/such").read_bytes() == b"made" and mode_of(tmp_path / "no/such") == 0o666 & ~umask
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.txt", "link.txt", "no"]


@pytest.mark.parametrize("name", ["", "folder", "folder/", "a\0b"])
def test_an_export_to_what_is_no_file_is_an_error_with_the_remedy(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadSettings, match=r"cannot write .*Give another --out"):
        write_export(Path(name), "text", "Give another --out.")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_an_export_to_a_pipe_goes_through_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(reader, "rb") as pipe:
        write_export(tmp_path / "pipe", "text")
        assert pipe.read() == b"text" and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_threads_that_write_one_file_at_once_leave_a_whole_one(tmp_path):
    texts = [f"{number} " * 200_000 for number in range(4)]
    writers = [threading.Thread(target=write_export, args=(tmp_path / "file", text)) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert (tmp_path / "file").read_text() in texts and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_database_and_its_folder_are_private_and_never_a_link(tmp_path):
    path = tmp_path / "cache" / "replies.sqlite"
    database = connect_database(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE t (x)")
    assert {mode_of(each) for each in path.parent.iterdir()} == {0o600} and mode_of(path.parent) == 0o700
    database.close()
    link_to_file(tmp_path / "linked.sqlite")
    with pytest.raises(BadData, match="a symbolic link"):
        connect_database(tmp_path / "linked.sqlite")


def test_a_second_connection_leaves_the_locks_of_the_first_which_other_processes_respect(tmp_path):
    path = tmp_path / "replies.sqlite"
    with closing(connect_database(path, isolation_level=None)) as first:
        first.execute("CREATE TABLE t (x)")
        first.execute("BEGIN EXCLUSIVE")
        connect_database(path).close()
        code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('INSERT INTO t VALUES (1)')"
        other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert "database is locked" in other.stderr


def test_the_write_ahead_log_waits_for_a_process_that_reads_the_file(tmp_path):
    path = tmp_path / "replies.sqlite"
    connect = partial(connect_database, path, isolation_level=None, timeout=0, check_same_thread=False)
    with closing(connect()) as first, closing(connect()) as second:
        first.execute("CREATE TABLE t (x)")
        first.execute("BEGIN")
        first.execute("SELECT * FROM t").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_write_ahead_log(second, 0)
        end = threading.Timer(0.1, first.execute, ["COMMIT"])
        end.start()
        use_write_ahead_log(second, 30)
        end.join()
        assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("content", [b"torn" * 4096, b"", None])
def test_a_database_is_emptied_under_the_connections_of_others(content, tmp_path):
    path = tmp_path / "cache.sqlite"
    with closing(connect_database(path, isolation_level=None)) as first:
        first.execute("CREATE TABLE t (x)")
    if content is not None:
        path.write_bytes(content)
    with closing(connect_database(path, isolation_level=None)) as other:
        empty_database(path, 1)
        other.execute("CREATE TABLE t (x)")
        other.execute("INSERT INTO t VALUES (1)")
        empty_database(path, 1, only_damaged=True)
        assert other.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_a_database_in_use_is_not_emptied(tmp_path):
    path = tmp_path / "cache.sqlite"
    with closing(connect_database(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            empty_database(path, 0)
        other.execute("INSERT INTO t VALUES (1)")
        other.execute("COMMIT")
        assert other.execute("SELECT x FROM t").fetchall() == [(1,)]


@pytest.mark.slow
def test_opening_a_fifo_ends_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    code = "import sys; from emend.memory.files import open_file; open_file(sys.argv[1], sys.argv[2])"
    for mode in MODES:
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "fifo"), mode], capture_output=True, text=True, timeout=60
        )
        assert "BadData" in done.stderr


def test_an_interruption_as_the_file_is_opened_stays_one(tmp_path, monkeypatch):
    path, opened = tmp_path / "file", os.fdopen

    def interrupted(*arguments: Any) -> Any:
        opened(*arguments).close()
        raise KeyboardInterrupt

    path.write_bytes(b"x")
    monkeypatch.setattr(os, "fdopen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_file(path, "rb")


def test_a_file_that_would_use_up_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    monkeypatch.setattr(files, "LARGEST_INPUT", 1_000)
    path = tmp_path / "content"
    for is_small, largest in ((True, 100), (False, 1_000)):
        path.write_bytes(b"x" * largest)
        assert read_file(path, is_small=is_small) == b"x" * largest
        path.write_bytes(b"x" * (largest + 1))
        with pytest.raises(BadData, match=f"content' has more than {largest:,} bytes"):
            read_file(path, is_small=is_small)


def test_a_line_that_would_use_up_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    path = tmp_path / "lines"
    for content in (b"", b"x" * 99, b"x" * 99 + b"\n", (b"x" * 98 + b"\n") * 50, b"x\n" * 200):
        path.write_bytes(content)
        with open_lines(path) as file:
            assert file.read() == content
    for before in (0, 1, 50, 99, 100, 1_000):
        path.write_bytes(b"y\n" * before + b"x" * 200 + b"\n" + b"y\n" * 10)
        with pytest.raises(BadData, match="a line of more than"):
            open_lines(path)
