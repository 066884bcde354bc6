"""Forgetting: no byte of a forgotten text is left in any file of the folder, whatever was stored and in which order."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from emend.memory.errors import MemoryUnavailable
from emend.memory.facts import database
from emend.memory.facts.database import FILE, FactDatabase
from emend.memory.facts.fact import Provenance
from emend.memory.facts.fact_memory import FactMemory
from tests.params import mostly_slow


def files_with(folder: Path, *texts: str) -> list[tuple[str, str]]:
    """The files whose bytes hold one of the texts, in UTF-8 or UTF-16, in any case."""
    contents = {path.name: path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}
    spellings = [(text, text.lower().encode(code)) for text in texts for code in ("utf-8", "utf-16-le")]
    return [(name, text) for name, content in contents.items() for text, spelling in spellings if spelling in content]


def test_a_text_that_is_kept_is_found_by_this_search(tmp_path):
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "phone number", "kept-number-1")
        assert files_with(tmp_path, "KEPT-number-1")


def test_every_part_of_a_forgotten_fact_is_gone_while_the_file_is_open(tmp_path):
    texts = ("Quendolin", "secret-street-9", "message-of-May", "user-xaver", "Zwiebelfisch")
    origin = Provenance(user="user-xaver", source="message-of-May")
    with FactMemory(tmp_path) as memory:
        memory.remember("Quendolin", "address", "secret-street-9", provenance=origin)
        memory.remember("Quendolin", "address", "secret-street-9", valid_from="2020", provenance=origin)
        memory.depend("Quendolin", "office", ("Quendolin", "address"), ["secret-street-9"], "Zwiebelfisch", origin)
        assert {text for _, text in files_with(tmp_path, *texts)} == set(texts)
        assert memory.search("Quendolin's secret street", user="user-xaver")
        memory.forget(subject="Quendolin", provenance=Provenance(user="user-xaver"))
        assert files_with(tmp_path, *texts) == []
        assert not memory.search("Quendolin's secret street", user="user-xaver")
    assert files_with(tmp_path, *texts) == []


def test_no_word_of_a_forgotten_text_is_left_in_the_index(tmp_path):
    """Whoever has the file has its salt too, and could try words against the digests."""

    def indexed() -> int:
        with closing(sqlite3.connect(tmp_path / FILE)) as connection:
            return int(connection.execute("SELECT count(*) FROM postings").fetchone()[0])

    with FactMemory(tmp_path) as memory:
        first = memory.remember("Ann", "address", "secret street").facts[0]
        memory.remember("Ann", "address", "other street", valid_from="2020")
        memory.depend("Ann", "office", ("Ann", "address"), ["secret street"], "tower")
        assert indexed()
        memory.forget(first.id)  # its period stays occupied, without a text
        memory.forget(subject="Ann")
        assert not indexed()


def test_a_correction_and_what_it_corrected_are_forgotten_one_by_one(tmp_path):
    with FactMemory(tmp_path) as memory:
        wrong = memory.remember("Ann", "birthday", "wrong-day-1").facts[0]
        right = memory.correct(wrong.id, "right-day-2").facts[0]
        memory.forget(right.id)
        assert files_with(tmp_path, "right-day-2") == []
        assert memory.lookup("Ann", "birthday").facts == ()
        memory.forget(wrong.id)
        assert files_with(tmp_path, "wrong-day-1") == [] and memory.count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_pages_that_were_split_filled_and_emptied_keep_nothing(seed, tmp_path):
    """Long and short texts, in random order, half of them forgotten between the additions."""
    draw = random.Random(seed)
    kept: dict[str, str] = {}
    with FactMemory(tmp_path) as memory:
        forgotten = []
        for number in range(250):
            text = f"text{number:05d}q" * draw.choice((1, 1, 3, 40, 700))
            kept[memory.remember(f"Person {number % 50}", "tasks", text).facts[0].id] = text
            if draw.random() < 0.5:
                id_ = draw.choice(list(kept))
                memory.forget(id_)
                forgotten.append(kept.pop(id_))
        names = {text[:10] for text in forgotten}
        assert len(names) > 90 and files_with(tmp_path, *names) == []
        left = {text[:10] for text in kept.values()}
        assert {text for _, text in files_with(tmp_path, *left)} == left


def test_a_batch_that_forgets_leaves_nothing_either(tmp_path):
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "phone number", "number-of-old")
        with memory.batch():
            memory.forget(subject="Ann")
            memory.remember("Ann", "phone number", "number-of-new")
        assert files_with(tmp_path, "number-of-old") == []


@pytest.mark.slow
@pytest.mark.parametrize("place", mostly_slow(["_wipe_log", "_begin_log", "erase_former_frames"], "_wipe_log"))
def test_a_process_killed_before_the_log_is_wiped_has_forgotten_and_the_next_one_empties_it(place, tmp_path):
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "phone number", "number-of-old")
    code = (
        "import os, signal, sys\n"
        "from emend.memory.facts import database\n"
        "from emend.memory.facts.fact_memory import FactMemory\n"
        "memory = FactMemory(sys.argv[1])\n"
        "owner = database if hasattr(database, sys.argv[2]) else database.FactDatabase\n"
        "setattr(owner, sys.argv[2], lambda _: os.kill(os.getpid(), signal.SIGKILL))\n"
        "memory.forget(subject='Ann')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), place], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with FactMemory(tmp_path) as memory:
        assert memory.count() == 0 and files_with(tmp_path, "number-of-old") == []


def test_a_log_that_another_process_empties_meanwhile_has_nothing_to_wipe(tmp_path, monkeypatch):
    begin = FactDatabase._begin_log
    with FactMemory(tmp_path) as memory, closing(FactDatabase(tmp_path / FILE)) as other:

        def begin_then_empty(database):
            begin(database)
            assert other._empty_log()

        memory.remember("Ann", "phone number", "number-of-old")
        monkeypatch.setattr(FactDatabase, "_begin_log", begin_then_empty)
        memory.forget(subject="Ann")
        assert memory.count() == 0 and files_with(tmp_path, "number-of-old") == []


@pytest.mark.slow
def test_a_log_is_wiped_also_of_what_earlier_rounds_left_in_it_and_a_large_one_is_cut_off(tmp_path, monkeypatch):
    log = tmp_path / f"{FILE}-wal"
    with FactMemory(tmp_path) as memory:
        with memory.batch():
            for number in range(300):
                memory.remember(f"Person {number}", "tasks", f"text-in-database-{number}")
        for _ in range(3):
            memory.remember("Ann", "phone number", "number-of-old")
            memory.forget(subject="Ann")
            assert log.stat().st_size > 10_000
            assert {name for name, _ in files_with(tmp_path, "text-in-database", "number-of-old")} == {FILE}
        monkeypatch.setattr(database, "WIPED_BYTES", 10_000)
        memory.remember("Ann", "phone number", "number-of-old")
        memory.forget(subject="Ann")
        assert log.stat().st_size == 0
        assert memory.count() == 300
    with FactMemory(tmp_path) as memory:
        assert memory.count() == 300


@pytest.mark.slow
def test_what_others_write_while_texts_are_forgotten_is_not_lost(tmp_path):
    def write() -> None:
        with FactMemory(tmp_path) as other:
            for number in range(20):
                other.remember("Ben", "tasks", f"task {number}")

    writer = threading.Thread(target=write)
    with FactMemory(tmp_path) as memory:
        writer.start()
        while writer.is_alive():
            memory.remember("Ann", "phone number", "number-of-old")
            memory.forget(subject="Ann")
        writer.join()
        assert files_with(tmp_path, "number-of-old") == []
    with FactMemory(tmp_path) as memory:
        assert memory.count() == 20


def test_a_log_that_somebody_begins_anew_meanwhile_is_wiped_and_one_that_goes_on_is_cut_off(tmp_path, monkeypatch):
    with FactMemory(tmp_path) as memory, FactMemory(tmp_path) as other:
        begin_log = FactDatabase._begin_log

        def write_before(self: FactDatabase) -> None:
            other.remember("Ben", "tasks", "task of Ben")
            begin_log(self)

        for begin, is_wiped in ((write_before, True), (lambda _: None, False)):
            memory.remember("Ann", "phone number", "number-of-old")
            monkeypatch.setattr(FactDatabase, "_begin_log", begin)
            memory.forget(subject="Ann")
            assert bool((tmp_path / f"{FILE}-wal").stat().st_size) == is_wiped
            assert files_with(tmp_path, "number-of-old") == [] and memory.lookup("Ben", "tasks").facts


def test_a_reader_in_the_way_is_named_and_the_text_is_gone_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "phone number", "number-of-old")
        reader = FactDatabase(tmp_path / FILE)
        reader.rows("BEGIN")
        reader.rows("SELECT count(*) FROM texts")
        with pytest.raises(MemoryUnavailable, match="another process is reading"):
            memory.forget(subject="Ann")
        assert memory.count() == 0
        reader.rows("COMMIT")
        reader.close()
    with FactMemory(tmp_path):
        assert files_with(tmp_path, "number-of-old") == []


def test_facts_that_are_stated_about_something_else_are_forgotten_with_their_object():
    with FactMemory(None) as memory:
        memory.remember("Bergen", "mayor", "Ida Lie")
        memory.remember("Dan Vik", "is the mayor of", "Bergen")
        memory.remember("Dan Vik", "employer", "City")
        memory.remember("Dan Vikander", "employer", "City")
        assert memory.forget(subject="Dan Vik").forgotten == 2
        assert memory.lookup("Bergen", "mayor").facts == ()
        assert memory.lookup("Dan Vikander", "employer").facts
