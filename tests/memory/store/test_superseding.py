"""Which edit of a fact counts: the rule, and what two who write at once make of it."""

from datetime import UTC, datetime

import pytest

import emend.memory.store.chroma as store
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings, MemoryMismatch
from emend.memory.retrieval.default import Default
from emend.memory.store.changes import StoreChanges, find_conflicts
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.rows import MemoryRow, make_rows
from emend.memory.store.superseding import Claim, fact_id, in_order, parse_time, superseded
from tests.memory.mayor_facts import fact, told


@pytest.mark.parametrize("subject", ["veld", " VELD ", "Ｖｅｌｄ", "veld\u00a0"])
def test_spelling_does_not_make_another_fact(subject):
    assert fact_id(subject, "Head_of  state’s") == fact_id("Veld", "head of state's")


@pytest.mark.parametrize("name", ["„Faust“", "«Faust»", "“Faust”", "Faust".join('""')])
def test_quotes_of_any_language_are_quotes(name):
    assert fact_id(name, "author") == fact_id('"Faust"', "author")


def test_two_concurrent_writers_leave_one_value_current():
    """Each has looked before the other wrote; whoever looks last puts right what both have written."""
    one, other = fact("Ann"), fact("Bo")
    rows = [make_rows(edit)[0]._replace(order=order) for order, edit in enumerate((one, other))]
    about: dict[str, list[MemoryRow]] = {fact: rows for fact in rows[0].facts}

    def stored(facts):
        return [row for fact in facts for row in about.get(fact, [])]

    (late,) = find_conflicts(StoreChanges([rows[1]], [], []), [], stored, "arrival")
    assert late == rows[0]._replace(current=False)
    about = {fact: [late, rows[1]] for fact in rows[0].facts}
    assert find_conflicts(StoreChanges([rows[1]], [], []), [], stored, "arrival") == []


def test_other_names_are_other_facts_and_an_undated_edit_gets_the_latest_time_at_its_arrival():
    assert len({fact_id("C", "x"), fact_id("C++", "x"), fact_id("C x", ""), fact_id("x", "C"), fact_id("Ç", "x")}) == 5
    claims = [claim("a", 1, "2025"), claim("b", 2), claim("c", 3, "2024"), claim("d", 4, "2026"), claim("e", 0)]
    assert [one.entry_id for one in in_order(claims[::-1])] == ["e", "c", "a", "b", "d"]


@pytest.mark.parametrize(
    "text, begins",
    [
        ("2025", datetime(2025, 1, 1, tzinfo=UTC)),
        ("2025-03", datetime(2025, 3, 1, tzinfo=UTC)),
        ("2025-03-31", datetime(2025, 3, 31, tzinfo=UTC)),
        ("2025-03-31T01:00+02:00", datetime(2025, 3, 30, 23, tzinfo=UTC)),
        ("last May", None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_as_iso_8601(text, begins):
    assert parse_time(text) == begins


def claim(name: str, order: int, time: str | None = None) -> Claim:
    return Claim(name, name, ("f",), parse_time(time), order)


def test_the_rule_by_time_ignores_edits_without_time():
    claims = [claim("a", 1, "2025"), claim("b", 2), claim("c", 3, "2024"), claim("d", 4)]
    assert superseded(claims, "time") == {"c"}
    assert superseded(claims, "arrival") == {"a", "b", "c"}
    assert superseded(claims, "never") == set()


def test_two_concurrent_withdrawals_leave_the_value_before_current():
    """One has deleted what the other took for the successor of the value that it deleted itself."""
    rows = [
        make_rows(fact(name))[0]._replace(order=order, current=False) for order, name in enumerate(("Ann", "Bo", "Cy"))
    ]

    def stored(facts):
        return [rows[0]] if set(facts) & set(rows[0].facts) else []

    (late,) = find_conflicts(StoreChanges([], [], [rows[1].entry.id]), [rows[1]], stored, "arrival")
    assert late == rows[0]._replace(current=True)


SMALL = LexicalEmbedding(256)


def document(text: str, *triplets: Triplet, **more) -> Edit:
    return Edit(form="document", text=text, triplets=triplets, **more)


def found(memory: ChromaMemory) -> list[str]:
    return sorted(entry.text for entry in memory.view().entries())


def values(memory: ChromaMemory, subject="Veld", relation="mayor") -> list[str]:
    return [", ".join(version.objects) for version in memory.history(subject, relation).versions]


@pytest.fixture
def near():
    """In this process: what the rule does is the same everywhere."""
    with ChromaMemory(None, SMALL) as opened:
        yield opened


def test_the_later_edit_of_a_fact_is_found_and_the_earlier_is_history(memory):
    memory.add([fact("Mira"), fact("Ilse", relation="baker"), fact("Tobin")])
    assert found(memory) == ["Veld baker Ilse", "Veld mayor Tobin"]
    assert {hit.entry.text for hit in memory.view().nearest("Veld mayor Mira", 9)} == set(found(memory))
    memory.add([fact("Karo")])
    assert found(memory) == ["Veld baker Ilse", "Veld mayor Karo"]
    assert values(memory, " VELD", "Mayor") == ["Mira", "Tobin", "Karo"]
    assert [version.current for version in memory.history("Veld", "mayor").versions] == [False, False, True]
    assert memory.history("nobody", "mayor").versions == ()


def test_time_takes_precedence_over_arrival_and_a_value_that_returns_is_current_again(near):
    near.add([fact("Tobin", "2025-06"), fact("Mira", "2024")])
    assert found(near) == ["Veld mayor Tobin"]
    near.add([fact("Ilse", "2019")])
    near.add([fact("Karo")])
    assert found(near) == ["Veld mayor Karo"]
    assert values(near) == ["Ilse", "Mira", "Tobin", "Karo"]
    near.add([fact("Mira"), fact("Tobin")])
    near.add([fact("Mira")])
    assert found(near) == ["Veld mayor Mira"]
    near.add([fact("Tobin"), fact("Mira"), fact("Tobin")])
    assert found(near) == ["Veld mayor Tobin"]


def test_withdrawing_an_edit_restores_the_earlier_value(memory):
    edits = [fact("Mira"), fact("Tobin"), fact("Karo")]
    memory.add(edits)
    memory.withdraw([edits[1].id])
    assert (found(memory), values(memory)) == (["Veld mayor Karo"], ["Mira", "Karo"])
    memory.withdraw([edits[2].id])
    assert (found(memory), values(memory)) == (["Veld mayor Mira"], ["Mira"])
    assert memory.view().nearest("mayor", 1)[0].entry.edit_id == edits[0].id
    with pytest.raises(BadData, match="no edit 'unknown' in"):
        memory.withdraw([edits[0].id, "unknown"])
    assert found(memory) == ["Veld mayor Mira"]


def test_an_edit_replaced_under_its_id_is_superseded_too(near):
    near.add([fact("Mira"), fact("Tobin").model_copy(update={"id": "x"})])
    near.add([fact("Tobin", relation="baker").model_copy(update={"id": "x"})])
    assert found(near) == ["Veld baker Tobin", "Veld mayor Mira"]


def test_several_objects_of_one_edit_are_all_current(near):
    both = Edit(form="triplets", text="twins", triplets=(told("Mira"), told("Tobin"), told("Lyon", relation="twin")))
    near.add([both])
    assert len(found(near)) == 3
    near.add([fact("Karo")])
    assert found(near) == ["Veld mayor Karo", "Veld twin Lyon"]


def test_a_document_is_hidden_when_all_its_facts_are_superseded(near):
    near.add([document("Mira is mayor and Ilse is baker.", told("Mira"), told("Ilse", relation="baker"))])
    near.add([document("Nobody knows.")])
    near.add([fact("Karo")])
    assert "Mira is mayor and Ilse is baker." in found(near)  # the baker is said nowhere else
    later = fact("Lene", relation="baker")
    near.add([later])
    assert found(near) == ["Nobody knows.", "Veld baker Lene", "Veld mayor Karo"]
    near.withdraw([later.id])
    assert "Mira is mayor and Ilse is baker." in found(near)


def test_a_document_supersedes_a_triplet(near):
    near.add([fact("Mira"), document("Since May Tobin has been mayor.", told("Tobin"))])
    assert found(near) == ["Since May Tobin has been mayor."]


def test_a_view_of_chosen_edits_contains_nothing_else(near):
    edits = [fact("Mira"), fact("Tobin"), fact("Karo")]
    near.add(edits)
    for chosen in ([0], [0, 1], [2, 0], [1]):
        view = near.view([edits[place].id for place in chosen])
        assert [entry.edit_id for entry in view.entries()] == [edits[chosen[-1]].id]


def test_undated_edits_of_a_run_are_all_current():
    edits = [fact("Mira"), fact("Tobin"), fact("Karo", "2025"), fact("Lene", "2024")]
    with ChromaMemory(None, SMALL, superseding="time") as memory:
        memory.add(edits)
        assert found(memory) == ["Veld mayor Karo", "Veld mayor Mira", "Veld mayor Tobin"]
        assert len(memory.view([edit.id for edit in edits]).entries()) == 3
        assert [version.current for version in memory.history("Veld", "mayor").versions].count(True) == 3


def test_the_index_skips_superseded_entries(near, monkeypatch):
    near.add([fact(f"Mira {i}") for i in range(60)] + [fact("bread", relation="baker")])
    monkeypatch.setattr(store, "EXACT_LIMIT", 10)
    view = near.view()
    assert [hit.entry.text for hit in view.nearest("Veld mayor Mira", 2)] == ["Veld mayor Mira 59", "Veld baker bread"]
    assert [entry.text for entry in view.entries()] != [] and len(view.entries()) == 2


def test_a_strategy_over_a_live_view_ignores_later_entries(near, monkeypatch):
    near.add([fact(f"Mira {i}", subject=f"Town {i}") for i in range(20)])
    monkeypatch.setattr(store, "EXACT_LIMIT", 10)
    strategy = Default(near.view())
    near.add([fact("Newcomer", subject="Town 3")])
    assert all(hit.entry.text != "Town 3 mayor Newcomer" for hit in strategy.search("mayor of Town 3", 3))
    assert Default(near.view()).search("mayor of Town 3", 1)[0].entry.text == "Town 3 mayor Newcomer"


def test_many_facts_are_looked_up_in_one_reading_or_one_by_one_alike(near, monkeypatch):
    import emend.memory.store.collection as shelf

    near.add([fact(f"Mira {i}", subject=f"Town {i}") for i in range(50)])
    for scan in (10**6, 0):
        monkeypatch.setattr(shelf, "SCAN", scan)
        monkeypatch.setattr(shelf, "FACTS", 3)
        near.add([fact(f"Tobin {scan}", subject=f"Town {i}") for i in range(10)])
        assert len(found(near)) == 50
        assert [text for text in found(near) if "Tobin" in text] == sorted(
            f"Town {i} mayor Tobin {scan}" for i in range(10)
        )
    assert values(near, "Town 3") == ["Mira 3", "Tobin 1000000", "Tobin 0"]


def test_counts_say_what_is_history(near):
    near.add([fact("Mira", "2024"), fact("Tobin", "2025-01"), document("plain", time="2019")])
    stats = near.stats()
    assert (stats.edits, stats.superseded, stats.entries, stats.current) == (3, 1, 3, 2)
    assert (stats.facts, stats.changed_facts, stats.first, stats.last) == (1, 1, "2019", "2025-01")
    assert stats.kinds == {"document": 1, "triplet": 2}


def test_edits_come_back_whole_and_in_order(memory):
    edits = [
        document("城市\n two lines", told("Mira"), time="2020", language="zh"),
        Edit(form="triplets", text="kept apart", triplets=(told("Tobin"), told("Lyon", relation="twin")), question="?"),
        fact("Karo"),
    ]
    memory.add(edits)
    assert memory.edits() == edits
    assert memory.edits([edits[2].id]) == edits[2:]


def test_a_memory_keeps_its_rule(kept):
    with ChromaMemory(kept, SMALL, superseding="time") as memory:
        memory.add([fact("Mira"), fact("Tobin")])
    with ChromaMemory(kept, SMALL) as memory:
        assert (memory.superseding, len(found(memory))) == ("time", 2)
    with pytest.raises(MemoryMismatch, match="supersedes by 'time', not by 'arrival'"):
        ChromaMemory(kept, SMALL, superseding="arrival")


def test_without_an_embedding_it_can_be_read_and_withdrawn_from(kept):
    edits = [fact("Mira"), fact("Tobin")]
    with ChromaMemory(kept, SMALL) as memory:
        memory.add(edits)
    with ChromaMemory(kept, None) as memory:
        assert (memory.identity, memory.edits()) == (SMALL.identity, edits)
        memory.withdraw([edits[1].id])
        with pytest.raises(BadSettings, match="opened without an embedding"):
            memory.view()
        with pytest.raises(BadSettings, match="opened without an embedding"):
            memory.add([fact("Karo")])
    with ChromaMemory(kept, SMALL) as memory:
        assert found(memory) == ["Veld mayor Mira"]


def test_adding_all_again_in_order_changes_nothing(near):
    edits = [fact("Mira"), document("plain"), document("Both.", told("Tobin"), told("Ilse", relation="baker"))]
    edits += [fact("Lene", relation="baker"), fact("Karo")]
    near.add(edits)
    stored = near._rows(None)
    near.add(edits)
    assert near._rows(None) == stored
    near.add(edits[:3])
    assert values(near) == ["Karo", "Mira", "Tobin"]
    assert values(near, relation="baker") == ["Lene", "Ilse"]
    near.add(edits)
    assert (values(near)[-1], values(near, relation="baker")[-1]) == ("Karo", "Lene")


def test_an_edit_that_arrives_again_moves_the_later_edits_of_its_facts(near):
    """The document moves behind Karo because of the mayor; the baker that came after it must not fall behind."""
    both, baker = document("Both.", told("Tobin"), told("Ilse", relation="baker")), fact("Lene", relation="baker")
    near.add([both, baker, fact("Karo")])
    near.add([both, baker])
    assert (values(near)[-1], values(near, relation="baker")[-1]) == ("Tobin", "Lene")
