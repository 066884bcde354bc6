"""Opening a memory: what is kept, what is refused, and with which remedy."""

import gc
import socket
import sqlite3
import warnings
from contextlib import closing

import pytest

import emend.memory.store.connection as connection
from emend.graphs.extraction.graph import ExtractContext, extract_edits
from emend.graphs.extraction.rules import RulesExtractor
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings, MemoryMismatch
from emend.memory.store.chroma import ChromaMemory
from scripts.benchmarks.bench_evolving import VARIED, facts, measure, unrelated

SMALL = LexicalEmbedding(256)


def document(text: str, **more) -> Edit:
    return Edit(form="document", text=text, **more)


@pytest.fixture
def closed_port():
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_stored_edits_are_there_after_reopening(kept):
    with ChromaMemory(kept, SMALL) as memory:
        memory.add([document("Lyon is twinned with Ostrim.", id="x", time="2026")])
        before = memory.view().nearest("Lyon", 1)
    with ChromaMemory(str(kept), SMALL) as memory:
        assert memory.view().nearest("Lyon", 1) == before
        memory.add([document("Lyon is twinned with Veld.", id="x")])
        assert [entry.text for entry in memory.view().entries()] == ["Lyon is twinned with Veld."]


def test_a_folder_may_be_open_twice_in_a_process(kept):
    with ChromaMemory(kept, SMALL) as one:
        with ChromaMemory(kept, SMALL) as other:
            other.add([document("Lyon")])
        assert one.count() == 1


def test_a_folder_may_be_open_under_two_names(kept, monkeypatch):
    if str(kept).startswith("http"):
        return
    monkeypatch.chdir(kept.parent)
    with ChromaMemory(kept.name, SMALL) as one, ChromaMemory(kept.resolve(), SMALL) as other:
        other.add([document(f"Lyon {n}") for n in range(150)])
        assert len(one.view().entries()) == 150


@pytest.mark.slow
def test_a_closed_memory_leaves_no_file_or_connection_open(kept):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        with ChromaMemory(kept, SMALL) as memory:
            memory.add([document("Lyon")])
        with pytest.raises(MemoryMismatch):
            ChromaMemory(kept, LexicalEmbedding(128))
        del memory
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


def test_another_embedding_is_refused_with_the_remedy(kept):
    with ChromaMemory(kept, SMALL) as memory:
        memory.add([document("Lyon")])
    with pytest.raises(
        MemoryMismatch, match=r"'lexical-1/256', but this is 'lexical-1/128': open it with that embedding"
    ):
        ChromaMemory(kept, LexicalEmbedding(128))
    with ChromaMemory(kept, SMALL) as memory:
        assert memory.count() == 1


def test_a_foreign_collection_and_a_file_are_refused(tmp_path):
    client = connection.connect(tmp_path)
    client.create_collection("documents", embedding_function=None)
    client.close()
    with pytest.raises(MemoryMismatch, match="an unnamed model"):
        ChromaMemory(tmp_path, SMALL)
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadSettings, match="memory folder .*file' cannot be used"):
        ChromaMemory(tmp_path / "file", SMALL)


def test_in_process_memories_know_nothing_of_each_other():
    with ChromaMemory(None, SMALL) as one, ChromaMemory(None, LexicalEmbedding(128)) as other:
        one.add([document("Lyon")])
        assert (one.count(), other.count()) == (1, 0)
    with ChromaMemory(None, SMALL) as later:
        assert later.count() == 0


@pytest.mark.parametrize("form", ["http://127.0.0.1:{}", "http://127.0.0.1:{}nonsense"])
def test_a_server_that_does_not_answer_is_named_with_the_command_that_starts_one(form, closed_port):
    url = form.format(closed_port)
    with pytest.raises(BadSettings, match=f"no Chroma server at '{url}'.*chroma run"):
        ChromaMemory(url, SMALL)


PAIRS = 25


@pytest.mark.slow
@pytest.mark.parametrize("form", ["triplet", "document"])
def test_the_current_value_is_found_and_none_that_it_superseded(form):
    told = facts(PAIRS, form)
    others, embedding = unrelated(150, form, told), LexicalEmbedding(512)
    kept = measure(told, others, embedding, "arrival")
    assert (kept.pairs, kept.right, kept.current, kept.stale) == (PAIRS, PAIRS, PAIRS, 0)
    assert (kept.history, kept.withdrawn) == (PAIRS, PAIRS)
    plain = measure(told, others, embedding, "never")
    assert plain.stale == PAIRS and plain.stale_first > PAIRS / 3


@pytest.mark.slow
def test_extracted_facts_leave_fewer_stale_entries():
    told = facts(PAIRS, "document")
    others, embedding = unrelated(50, "document", told), LexicalEmbedding(512)
    read = measure(told, others, embedding, "arrival", True)
    assert (read.right, read.stale, read.unread, read.lost) == (PAIRS, 0, 0, 0)
    worded = measure(told, others, embedding, "arrival", True, normalisation=False)
    plain = measure(told, others, embedding, "never")
    assert worded.current == PAIRS and 0 < worded.stale_first < plain.stale_first


@pytest.mark.slow
def test_more_paraphrases_leave_only_unparsable_facts_stale():
    told = facts(PAIRS, "document", wordings=VARIED)
    others, embedding = unrelated(20, "document", told, VARIED), LexicalEmbedding(512)
    read, plain = (measure(told, others, embedding, "arrival", True), measure(told, others, embedding, "never"))
    assert read.unread > 0 and read.lost == 0 and read.current == PAIRS
    assert read.stale < plain.stale and read.stale_first < plain.stale_first / 2


@pytest.mark.parametrize(("validation", "current"), [("both", 2), ("subject", 1)])
def test_a_value_that_is_no_name_is_superseded_where_the_subject_alone_is_validated(validation, current):
    texts = ["The sport of Toleix is cycling.", "Toleix's new sport is rowing."]
    embedding = LexicalEmbedding()
    context = ExtractContext(RulesExtractor(), embedding, validation=validation)
    edits = extract_edits([Edit(form="document", text=text) for text in texts], context)
    with ChromaMemory(None, embedding, superseding="arrival") as memory:
        memory.add(edits)
        kept = {entry.text for entry in memory.view().entries()}
    assert kept == set(texts[-current:])


def make_altered(folder, sql):
    """A memory of one document whose database another program has changed."""
    with ChromaMemory(folder, SMALL) as memory:
        memory.add([document("Lyon is twinned with Ostrim.")])
    with closing(sqlite3.connect(folder / "chroma.sqlite3")) as database:
        database.executescript(sql)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM embedding_metadata WHERE key = 'edit_id'",
        "UPDATE embedding_metadata SET string_value = NULL, int_value = 7",
        "UPDATE collections SET dimension = 7",
    ],
)
def test_a_damaged_row_is_named_with_a_remedy(tmp_path, damage):
    make_altered(tmp_path / "memory", damage)
    with (
        ChromaMemory(tmp_path / "memory", SMALL, create=False) as memory,
        pytest.raises(BadData, match=r"damaged.*to a new one"),
    ):
        memory.view().nearest("Lyon", 1)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON embeddings_queue BEGIN UPDATE embeddings_queue SET metadata = '{}'; END",
        "CREATE TRIGGER t BEFORE INSERT ON embeddings_queue BEGIN SELECT RAISE(IGNORE); END",
        "ALTER TABLE embeddings RENAME TO e; CREATE VIEW embeddings AS SELECT * FROM e",
    ],
)
def test_a_folder_whose_database_has_triggers_or_views_is_refused(tmp_path, sql):
    make_altered(tmp_path / "memory", sql)
    with pytest.raises(BadSettings, match="has a trigger or view '(t|embeddings)'"):
        ChromaMemory(tmp_path / "memory", SMALL, create=False)
