"""The memory of facts: errors, records, searches, processes and threads at once."""

import multiprocessing
import re
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings, MemoryMismatch
from emend.memory.facts.database import FILE, FactDatabase
from emend.memory.facts.fact import SHARED, Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.relations.relation_table import RelationTable
from tests.paths import ROOT


@pytest.fixture
def memory():
    with FactMemory(None) as opened:
        yield opened


def objects(facts) -> list[str]:
    return [fact.object for fact in facts]


def test_a_fact_carries_where_it_comes_from_and_when_it_was_said(memory):
    origin = Provenance(user="ann", source="message 7", recorded_at="2024-05-01T10:00+02:00", operation_id="7.0")
    change = memory.remember("Ann", "lives in", "Bern", valid_from="2023", provenance=origin)
    [fact] = memory.lookup("Ann", "home city", user="ann").facts
    assert change.facts == (fact,) and change.operation_id == "7.0"
    assert (fact.relation, fact.source, fact.user) == ("home city", "message 7", "ann")
    assert fact.valid_from == "2023-01-01T00:00:00.000000Z" and fact.recorded_at == "2024-05-01T08:00:00.000000Z"
    [entry] = memory.journal()
    assert (entry.operation, entry.operation_id, entry.ids) == ("remember", "7.0", (fact.id,))


def test_an_impossible_number_is_refused_from_python_too(memory):
    with pytest.raises(BadSettings, match="k is -1"):
        memory.search("Ann", k=-1)
    with pytest.raises(BadData, match="'1714557600' is not a time"):
        memory.remember("Ann", "job", "cook", valid_from=1714557600)


def test_times_without_a_zone_are_those_of_the_memory_s_zone():
    with FactMemory(None, time_zone="Asia/Tokyo") as memory:
        memory.remember("Desk", "status", "open", valid_from="2024-05-01")
        assert memory.lookup("Desk", "status").facts[0].valid_from == "2024-04-30T15:00:00.000000Z"
    with pytest.raises(BadSettings, match="Nowhere/Land.*Europe/Berlin"):
        FactMemory(None, time_zone="Nowhere/Land")


def test_the_same_operation_again_does_nothing_and_another_one_of_its_id_is_refused(memory):
    origin = Provenance(operation_id="one")
    first = memory.remember("Ann", "tasks", "sweep", provenance=origin)
    again = memory.remember("Ann", "tasks", "sweep", provenance=origin)
    assert again.repeated and again.facts == first.facts and memory.count() == 1
    with pytest.raises(BadData, match="'one' was 'remember'"):
        memory.forget(subject="Ann", provenance=origin)
    other = memory.remember("Ann", "tasks", "cook", provenance=Provenance(user="ben", operation_id="one"))
    assert not other.repeated and memory.count() == 2


def test_a_forgotten_fact_does_not_come_back_when_its_operation_is_repeated(memory):
    origin = Provenance(operation_id="one")
    memory.remember("Ann", "phone number", "555-1", provenance=origin)
    memory.forget(subject="Ann")
    assert memory.remember("Ann", "phone number", "555-1", provenance=origin).facts == ()
    assert not memory.lookup("Ann", "phone number").facts


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda m: m.remember(" ", "mayor", "Mira"), "subject.*blank"),
        (lambda m: m.remember("Veld", "mayor", ""), "object.*blank"),
        (lambda m: m.remember("Veld", "mayor", "Mira", valid_from="last May"), "'last May' is not a time: write 2026"),
        (lambda m: m.remember("Veld", "mayor", "Mira", valid_from="2024", valid_to="2023"), "later `valid_to`"),
        (lambda m: m.remember("Mira", "was formerly the mayor of", "Veld"), "`valid_to`"),
        (lambda m: m.update("Ann", "friend", ""), "nothing holds.*`remember`"),
        (lambda m: m.update("Ann", "friend", "Ben", replaces="Cleo"), "nothing holds.*`remember`"),
        (lambda m: m.correct("0123", "Mira"), "no fact '0123'.*`history`"),
        (lambda m: m.retract("0123"), "no fact '0123'"),
        (lambda m: m.resolve("0123", []), "no open conflict '0123'.*`conflicts`"),
        (lambda m: m.forget(), "say what to forget"),
        (lambda m: m.forget(id="0123", subject="Ann"), "say what to forget"),
        (lambda m: m.forget(id="0123"), "no fact '0123'"),
        (lambda m: m.depend("Ann", "office", ("Ann", "office")), "follow from itself"),
        (lambda m: m.lookup("Ann", "office", at="soon"), "'soon' is not a time"),
    ],
)
def test_bad_operations_name_what_to_do_and_change_nothing(memory, call, remedy):
    with pytest.raises(BadData, match=remedy):
        call(memory)
    assert memory.count() == 0 and memory.journal() == ()


def test_replacing_one_of_several_needs_its_name(memory):
    for friend in ("Ben", "Cleo"):
        memory.remember("Ann", "friend", friend)
    with pytest.raises(BadData, match="'Ben', 'Cleo' hold: say which"):
        memory.update("Ann", "friend", "Dora")


def test_another_user_s_facts_cannot_be_changed(memory):
    fact = memory.remember("I", "home city", "Bern", provenance=Provenance(user="ann")).facts[0]
    thief = Provenance(user="ben")
    for call in (memory.retract, memory.forget):
        with pytest.raises(BadData, match="of this user"):
            call(fact.id, provenance=thief)
    with pytest.raises(BadData, match="of this user"):
        memory.correct(fact.id, "Oslo", provenance=thief)
    assert not memory.search("home city Bern", user="ben") and memory.as_of("2100", user="ben") == ()
    assert objects(memory.lookup("I", "home city", user="ann").facts) == ["Bern"]


def test_the_present_is_no_earlier_than_what_the_user_said_whatever_others_said(memory):
    memory.remember("I", "home city", "Bern", provenance=Provenance(user="ann", recorded_at="2150"))
    memory.remember("I", "home city", "Oslo", provenance=Provenance(user="ben"), valid_from="2100")
    assert objects(memory.lookup("I", "home city", user="ann").facts) == ["Bern"]
    assert objects(memory.lookup("I", "home city", user="ben").facts) == []


def test_a_circle_of_rules_is_refused_also_by_way_of_shared_rules(memory):
    ann = Provenance(user="ann")
    memory.depend("Ann", "office", ("Ann", "home city"), value="x", provenance=ann)
    memory.depend("Ann", "desk", ("Ann", "office"), value="y", provenance=Provenance(user=SHARED))
    with pytest.raises(BadData, match="follow from itself.*forget"):
        memory.depend("Ann", "lives in", ("ann", "desk"), value="z", provenance=ann)
    assert memory.depend("Ann", "home city", ("Ann", "desk"), value="z", provenance=Provenance(user="ben")).dependency
    with pytest.raises(BadData, match="follow from itself"):  # would close ben's circle
        memory.depend("Ann", "office", ("Ann", "home city"), provenance=Provenance(user=SHARED))


def test_a_long_cascade_is_resolved_at_once(memory):
    for n in range(30):
        memory.depend("Ann", f"level {n + 1}", ("Ann", f"level {n}"), value="{object}.")
    memory.remember("Ann", "level 0", "a")
    assert objects(memory.lookup("Ann", "level 30").facts) == ["a" + 30 * "."]


def test_a_template_is_text_and_nothing_in_it_is_run(memory):
    memory.depend("Ann", "office", ("Ann", "home city"), value="{object.__class__} {object} {0}")
    memory.remember("Ann", "home city", "{object}")
    assert objects(memory.lookup("Ann", "office").facts) == ["{object.__class__} {object} {0}"]


def test_a_conflict_shows_its_sides_and_only_they_can_be_kept(memory):
    memory.remember("Ann", "likes", "tea")
    change = memory.remember("Ann", "likes", "coffee")
    [conflict] = memory.conflicts()
    assert change.conflicts == (conflict,) and objects(conflict.facts) == ["tea", "coffee"]
    assert {fact.status for fact in conflict.facts} == {"disputed"} and memory.conflicts(user="ben") == ()
    with pytest.raises(BadData, match="keep .*tea"):
        memory.resolve(conflict.id, ["0123"])
    memory.resolve(conflict.id, [conflict.facts[0].id])
    assert memory.conflicts() == () and objects(memory.lookup("Ann", "likes").facts) == ["tea"]


@pytest.mark.parametrize("embedding", [None, LexicalEmbedding(256)])
def test_a_search_finds_what_holds_and_never_what_is_out_of_date(embedding):
    with FactMemory(None, embedding=embedding) as memory:
        for number in range(200):
            memory.remember(f"Person {number}", "home city", f"Town {number % 7}")
        memory.remember("Ann Berg", "home city", "Bern", valid_from="2020")
        memory.remember("Ann Berg", "home city", "Oslo", valid_from="2024")
        memory.depend("Ann Berg", "parking lot", ("Ann Berg", "home city"), ["Oslo"], "P9")
        memory.remember("Ann Berg", "friend", "Zoe Falk")
        assert objects(hit.fact for hit in memory.search("Where does Ann Berg live?", 1)) == ["Oslo"]
        assert objects(hit.fact for hit in memory.search("Where does Ann Berg live?", 1, at="2021")) == ["Bern"]
        assert "Bern" not in objects(hit.fact for hit in memory.search("Does Ann Berg live in Bern?", 50))
        assert objects(hit.fact for hit in memory.search("What is Ann Berg's parking lot?", 1)) == ["P9"]
        assert objects(hit.fact for hit in memory.search("Zoe Falk", 1)) == ["Zoe Falk"]
        assert len(memory.search("home city", 60)) == 60
        assert memory.search("xylophone") == () and memory.search("?") == ()


def test_as_of_lists_what_held(memory):
    memory.remember("Ann", "home city", "Bern", valid_from="2020")
    memory.remember("Ben", "home city", "Rome", valid_from="2020")
    memory.remember("Ann", "home city", "Oslo", valid_from="2024", provenance=Provenance(recorded_at="2024"))
    assert objects(memory.as_of("2021")) == ["Bern", "Rome"]
    assert objects(memory.as_of("2025", subject="ann")) == ["Oslo"]
    assert objects(memory.as_of("2025", subject="ann", known_at="2023")) == []
    assert memory.as_of("2019") == ()


def test_texts_of_any_kind_come_back_as_they_were(memory):
    for number, text in enumerate(["東京 🏯", "a\0b", "x" * 100_000, 'quote " and \\', "line\nline"]):
        memory.remember(f"Thing {number}", "name", text)
        assert objects(memory.lookup(f"Thing {number}", "name").facts) == [text]
    assert objects(memory.remember("half", "name", "\ud800").facts) == ["\ufffd"]


def test_another_program_s_file_and_another_version_s_are_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database, but long enough to be taken for one" * 20)
    with pytest.raises(BadData, match="another folder"):
        FactMemory(tmp_path)
    (tmp_path / FILE).unlink()
    FactMemory(tmp_path).close()
    database = FactDatabase(tmp_path / FILE)
    database.rows("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(MemoryMismatch, match="99"):
        FactMemory(tmp_path)


def test_a_batch_is_one_transaction_in_which_a_bad_operation_alone_is_undone(tmp_path):
    with FactMemory(tmp_path) as memory, FactMemory(tmp_path) as other:
        with memory.batch():
            memory.remember("Ann", "tasks", "sweep")
            with pytest.raises(BadData):
                memory.update("Ann", "friend", "")
            memory.remember("Ann", "tasks", "cook")
            assert other.count() == 0
        assert other.count() == 2 and len(memory.journal()) == 2
        with pytest.raises(ZeroDivisionError), memory.batch():
            memory.remember("Ann", "tasks", "wash")
            raise ZeroDivisionError
        assert other.count() == 2


def test_the_example_of_the_page_is_true(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "facts.md").read_text(encoding="utf-8")
    first, dependencies = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    [declared] = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "relations.toml").write_text(declared)
    monkeypatch.chdir(tmp_path)
    exec(first, {})
    with FactMemory(None, RelationTable.load(tmp_path / "relations.toml")) as memory:
        exec(dependencies, {"memory": memory})
        memory.remember("Ann", "home city", "Bern")
        assert objects(memory.lookup("Ann", "office").facts) == ["Aare Street 1"]


def test_threads_lose_nothing(tmp_path):
    with FactMemory(tmp_path) as memory, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: memory.remember("Ann", "tasks", f"task {n}"), range(60)))
        assert len(memory.lookup("Ann", "tasks").facts) == 60


def _remember(folder, name, barrier):
    with FactMemory(folder) as memory:
        barrier.wait(120)
        for number in range(20):
            origin = Provenance(operation_id=f"shared {number}")
            memory.remember("Ann", "tasks", f"shared task {number}", provenance=origin)
            memory.remember("Ann", "tasks", f"task {number} of {name}")


@pytest.mark.slow
def test_processes_at_once_lose_nothing_and_add_nothing_twice(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    processes = [context.Process(target=_remember, args=(tmp_path, name, barrier)) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0
    with FactMemory(tmp_path) as memory:
        tasks = objects(memory.lookup("Ann", "tasks").facts)
    assert len(tasks) == len(set(tasks)) == 20 + 3 * 20


def test_a_reader_sees_no_half_of_a_change(tmp_path):
    stop = threading.Event()
    wrong = []

    def read():
        with FactMemory(tmp_path) as other:
            while not stop.is_set():
                found = objects(other.lookup("Ann", "home city").facts)
                if len(found) > 1 or (found and not re.fullmatch(r"Town \d+", found[0])):
                    wrong.append(found)

    with FactMemory(tmp_path) as memory:
        thread = threading.Thread(target=read)
        thread.start()
        for number in range(40):
            memory.update("Ann", "home city", f"Town {number}")
        stop.set()
        thread.join()
    assert wrong == []


def said(day: str) -> Provenance:
    return Provenance(user="ann", recorded_at=f"2024-{day}")


def current(memory, relation: str, at: str = "") -> list[str]:
    return objects(memory.lookup("Ann", relation, user="ann", at=at).facts)


def test_an_end_that_is_said_later_ends_what_was_known(memory):
    for relation in ("hobby", "employer"):
        memory.remember("Ann", relation, "chess", provenance=said("01-01"))
        memory.remember("Ann", relation, "chess", valid_to="2024-06-01", provenance=said("02-01"))
        assert current(memory, relation, at="2024-05-01") == ["chess"]
        assert current(memory, relation, at="2024-07-01") == []


def test_a_fact_that_was_said_twice_ends_once(memory):
    memory.remember("Ann", "hobbies", "chess", provenance=said("01-01"))
    memory.remember("Ann", "hobbies", "chess", valid_from="2020", provenance=said("01-02"))
    memory.update("Ann", "hobbies", "", replaces="chess", provenance=said("02-01"))
    assert current(memory, "hobbies") == []


def test_what_corrects_a_fact_ends_with_it(memory):
    old = memory.remember("Ann", "hobbies", "ches", provenance=said("01-01"))
    memory.update("Ann", "hobbies", "go", replaces="ches", provenance=said("02-01"))
    memory.correct(old.facts[0].id, "chess", provenance=said("02-02"))
    assert current(memory, "hobbies") == ["go"]
    assert current(memory, "hobbies", at="2024-01-15") == ["chess"]


def test_a_contradiction_that_began_earlier_is_a_conflict_and_its_loser_is_gone(memory):
    memory.remember("Ann", "likes", "jazz", provenance=said("01-01"))
    memory.remember("Ann", "likes", "jazz", valid_from="2024-01-15", provenance=said("01-20"))
    memory.remember("Ann", "likes", "rock", valid_from="2020", provenance=said("02-01"))
    [conflict] = memory.conflicts(user="ann")
    [rock] = (fact for fact in memory.lookup("Ann", "likes", user="ann").facts if fact.object == "rock")
    memory.resolve(conflict.id, [rock.id], provenance=said("02-02"))
    assert current(memory, "likes") == ["rock"]


def test_a_fact_that_is_said_again_after_what_it_depends_on_changed_counts_again(memory):
    memory.remember("Ann", "home city", "Oslo", provenance=said("01-01"))
    memory.remember("Ann", "commute", "tram 5", provenance=said("01-02"))
    memory.depend("Ann", "commute", ("Ann", "home city"), provenance=said("01-03"))
    memory.remember("Ann", "home city", "Rome", provenance=said("02-01"))
    assert current(memory, "commute") == []
    memory.remember("Ann", "commute", "tram 5", provenance=said("02-02"))
    assert current(memory, "commute") == ["tram 5"]


def test_a_rule_counts_from_when_it_was_said_to_when_it_was_taken_back(memory):
    memory.remember("Ann", "home city", "Oslo", provenance=said("01-01"))
    rule = memory.depend("Ann", "office", ("Ann", "home city"), value="north", provenance=said("02-01"))
    memory.retract(rule.dependency.id, provenance=said("03-01"))
    expected = {"2024-01-15": [], "2024-02-01": ["north"], "2024-02-15": ["north"], "2024-03-01": [], "": []}
    for known_at, names in expected.items():
        assert objects(memory.lookup("Ann", "office", user="ann", known_at=known_at).facts) == names, known_at


def test_a_conflict_is_none_from_the_instant_at_which_it_was_decided(memory):
    memory.remember("Ann", "likes", "tea", provenance=said("01-01"))
    [conflict] = memory.remember("Ann", "likes", "coffee", provenance=said("01-02")).conflicts
    memory.resolve(conflict.id, [each.id for each in conflict.facts], provenance=said("02-01"))
    days = {"2024-01-01": False, "2024-01-31": True, "2024-02-01": False, "": False}
    for known_at, disputed in days.items():
        statuses = {fact.status for fact in memory.lookup("Ann", "likes", user="ann", known_at=known_at).facts}
        assert ("disputed" in statuses) is disputed, known_at


def test_that_a_fact_has_ended_is_said_and_not_of_one_that_nobody_stated(memory):
    memory.remember("Ann", "employer", "Aske Works", provenance=said("01-01"))
    memory.update("Ann", "employer", "", provenance=said("02-01"))
    assert memory.lookup("Ann", "employer", user="ann").reason
    assert not memory.lookup("Ann", "spouse", user="ann").reason


def test_a_fact_is_no_longer_in_the_future_at_the_instant_at_which_it_begins(memory):
    memory.remember("Ann", "home city", "Oslo", valid_from="2024-05-01", provenance=said("01-01"))
    statuses = {
        day: memory.history("Ann", "home city", user="ann", known_at=f"2024-{day}")[0].status
        for day in ("04-30", "05-01", "05-02")
    }
    assert statuses == {"04-30": "future", "05-01": "current", "05-02": "current"}


@pytest.mark.parametrize(
    ("relation", "other"),
    [("spouse", "is not married to"), ("lives in", "will live in"), ("employer", "may be employed by")],
)
def test_what_is_denied_or_foreseen_is_another_relation(memory, relation, other):
    memory.remember("Ann", relation, "Bern", provenance=said("01-01"))
    memory.remember("Ann", other, "Rome", provenance=said("01-02"))
    assert current(memory, relation) == ["Bern"] and current(memory, other) == ["Rome"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER grow AFTER INSERT ON texts BEGIN UPDATE texts SET content = zeroblob(9); END",
        "CREATE VIEW numbers AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE TABLE more (content TEXT)",
    ],
)
def test_a_stranger_s_file_with_other_tables_views_or_triggers_is_refused(statement, tmp_path):
    FactMemory(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute(statement)
        connection.commit()
    with pytest.raises(BadData, match="another folder"):
        FactMemory(tmp_path)


@pytest.mark.parametrize("content", ["no JSON", "[1]", '{"subject": 1}'])
def test_stored_texts_that_are_no_facts_are_refused_with_the_file_s_name(content, tmp_path):
    with FactMemory(tmp_path) as memory:
        memory.remember("Ann", "home city", "Bern")
        memory._database.rows("UPDATE texts SET content = ?", content.encode())
        with pytest.raises(BadData, match=FILE):
            memory.lookup("Ann", "home city")
