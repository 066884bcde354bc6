import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import numpy as np
import pytest

from emend.memory.embeddings import vector_cache
from emend.memory.embeddings.vector_cache import CHUNK, VectorCache
from emend.memory.files import EMPTYING, connect_database, empty_database


class Model:
    """Embeds a text as its length and code points, and counts."""

    def __init__(self):
        self.asked: list[str] = []

    def __call__(self, texts):
        self.asked += texts
        return np.array([[len(text), sum(map(ord, text)) / 7] for text in texts], dtype=np.float32)


TEXTS = ["b", "a", "b", "", "城"]


def test_a_second_run_embeds_nothing_and_gets_the_same_vectors(tmp_path):
    model = Model()
    first = VectorCache(tmp_path, "m").get_or_embed("document", TEXTS, model)
    assert model.asked == ["b", "a", "", "城"]
    again = VectorCache(tmp_path, "m").get_or_embed("document", TEXTS, _never)
    assert np.array_equal(first, again) and again.dtype == np.float32
    assert np.array_equal(first, Model()(TEXTS))


def _never(texts):
    raise AssertionError(f"embedded again: {texts}")


def test_only_what_is_new_is_embedded(tmp_path):
    cache, model = VectorCache(tmp_path, "m"), Model()
    cache.get_or_embed("document", ["a", "b"], model)
    assert np.array_equal(cache.get_or_embed("document", ["c", "a"], model), Model()(["c", "a"]))
    assert model.asked == ["a", "b", "c"]


def test_models_and_roles_are_kept_apart(tmp_path):
    model = Model()
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], model)
    VectorCache(tmp_path, "m").get_or_embed("query", ["a"], model)
    VectorCache(tmp_path, "other").get_or_embed("document", ["a"], model)
    assert model.asked == ["a", "a", "a"]


def test_an_interrupted_run_keeps_its_vectors(tmp_path):
    texts, model = [f"text {i}" for i in range(CHUNK + 10)], Model()

    def interrupted(part):
        if model.asked:
            raise KeyboardInterrupt
        return model(part)

    try:
        VectorCache(tmp_path, "m").get_or_embed("document", texts, interrupted)
    except KeyboardInterrupt:
        pass
    VectorCache(tmp_path, "m").get_or_embed("document", texts, model)
    assert len(model.asked) == len(texts)


def test_a_folder_that_cannot_be_made_is_skipped_and_a_damaged_file_begun_anew_with_a_warning(tmp_path, caplog):
    cache = VectorCache(tmp_path / "file", "m")
    (tmp_path / "file").write_text("not a folder")
    assert np.array_equal(cache.get_or_embed("document", ["a"], Model()), Model()(["a"]))
    assert "is skipped" in caplog.text
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model())
    (file,) = tmp_path.glob("*.sqlite")
    file.write_bytes(b"torn" * 4096)
    assert np.array_equal(VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model()), Model()(["a"]))
    assert "is damaged" in caplog.text
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], _never)


def test_a_process_that_has_a_damaged_file_open_can_write_to_it_once_it_is_rebuilt(tmp_path):
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model())
    (file,) = tmp_path.glob("*.sqlite")
    file.write_bytes(b"torn" * 4096)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        VectorCache(tmp_path, "m").get_or_embed("document", ["b"], Model())
        assert other.execute("DELETE FROM vectors").rowcount == 1


def test_of_two_processes_that_find_a_file_damaged_the_second_keeps_what_the_first_wrote(tmp_path, monkeypatch):
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model())
    (file,) = tmp_path.glob("*.sqlite")
    file.write_bytes(b"torn" * 4096)

    def warn(message):
        monkeypatch.undo()
        VectorCache(tmp_path, "m").get_or_embed("document", ["b"], Model())

    monkeypatch.setattr(vector_cache, "_warn_once", warn)
    VectorCache(tmp_path, "m").get_or_embed("document", ["c"], Model())
    cached = VectorCache(tmp_path, "m").get_or_embed("document", ["b", "c"], _never)
    assert np.array_equal(cached, Model()(["b", "c"]))


@pytest.mark.parametrize("statement", ["SELECT vector", "INSERT"])
def test_no_other_process_can_empty_the_file_between_two_statements(tmp_path, monkeypatch, caplog, statement):
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model())
    tries: list[str] = []

    def connect(path, **options):
        def interfere(text):
            if text.startswith(statement):
                tries.append(text)
                with suppress(sqlite3.OperationalError):
                    empty_database(path, 0.01)

        database = connect_database(path, **options)
        database.set_trace_callback(interfere)
        return database

    monkeypatch.setattr(vector_cache, "connect_database", connect)
    VectorCache(tmp_path, "m").get_or_embed("document", ["a", "b"], Model())
    monkeypatch.undo()
    assert tries and not caplog.text
    VectorCache(tmp_path, "m").get_or_embed("document", ["a", "b"], _never)


def test_a_damaged_file_whose_lock_cannot_be_made_stays_with_a_warning(tmp_path, caplog):
    VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model())
    (file,) = tmp_path.glob("*.sqlite")
    file.write_bytes(b"torn" * 4096)
    (tmp_path / EMPTYING).mkdir()
    assert np.array_equal(VectorCache(tmp_path, "m").get_or_embed("document", ["a"], Model()), Model()(["a"]))
    assert "cannot be rebuilt" in caplog.text and file.read_bytes() == b"torn" * 4096


def test_a_cache_is_private_and_never_written_through_a_link(tmp_path, caplog):
    VectorCache(tmp_path / "vectors", "m").get_or_embed("document", ["a"], Model())
    (file,) = (tmp_path / "vectors").glob("*.sqlite")
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    victim = file.rename(tmp_path / "victim")
    content = victim.read_bytes()
    file.symlink_to(victim)
    VectorCache(tmp_path / "vectors", "m").get_or_embed("document", ["b"], Model())
    assert "is a symbolic link" in caplog.text and victim.read_bytes() == content


def test_threads_may_share_a_cache(tmp_path):
    cache = VectorCache(tmp_path, "m")
    parts = [[f"text {i + j}" for j in range(20)] for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: cache.get_or_embed("document", part, Model()), parts))
    assert all(np.array_equal(rows, Model()(part)) for rows, part in zip(found, parts, strict=True))
    (file,) = tmp_path.glob("*.sqlite")
    with closing(sqlite3.connect(file)) as table:
        assert table.execute("SELECT count(*) FROM vectors").fetchone() == (59,)
