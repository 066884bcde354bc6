"""Updates and leads come from the servers by the same rules as from a dump."""

import json
from datetime import date
from typing import Any

import pytest

from emend.evals.construction.wikidata.dump import read_updates
from emend.evals.construction.wikidata.fact_update import FactUpdate, UpdateCounts
from emend.evals.construction.wikidata.query import WikiClient, fetch_leads, first_sentences, query_updates
from emend.evals.data.facts.relation_tables import Relations
from emend.memory.errors import BadSettings, FetchFailed
from tests.evals.construction.wikidata.entities import dump_of, entity, statement
from tests.evals.construction.wikidata.wiki_server import Fault

SINCE, TODAY = date(2021, 4, 1), date(2024, 6, 1)
RELATIONS = Relations(relations=tuple(Relations.read().by_id[name] for name in ("P6", "P286")))
OBJECTS = (entity("Q10", "Johnson"), entity("Q30", "Sunak"))


def subject(id_: str, relation: str = "P6", old: str = "Q10", new: str = "Q30") -> dict[str, Any]:
    claims = [statement(relation, old, "2019-07-24", "2022-09-06"), statement(relation, new, "2022-10-25")]
    return entity(id_, f"Land {id_}", claims)


def query(client: WikiClient, limit: int = 100, counts: UpdateCounts | None = None) -> list[FactUpdate]:
    return list(query_updates(client, SINCE, RELATIONS, "best", "en", limit, counts=counts, today=TODAY))


def test_updates_are_those_of_a_dump_with_the_same_entities(client, server, tmp_path):
    entities = [
        subject("Q145"),
        entity("Q2", "unchanged", [statement("P6", "Q10", "2019")]),
        subject("Q3", "P286"),
        subject("Q4", new="Q99"),
        *OBJECTS,
    ]
    server.publish(*entities)
    (tmp_path / "dump.json").write_bytes(dump_of(*entities))
    counts, of_dump = UpdateCounts(), UpdateCounts()
    updates = query(client, counts=counts)
    assert [update.subject_id for update in updates] == ["Q145", "Q3"]  # a relation in turn
    assert updates == list(
        read_updates(tmp_path / "dump.json", SINCE, RELATIONS, workers=1, counts=of_dump, today=TODAY)
    )
    assert counts.reasons == of_dump.reasons == {"unchanged": 1, "absent_object": 1}
    assert (counts.candidates, counts.updates) == (4, 2)


def test_the_limit_bounds_updates_and_requests(client, server):
    server.publish(*(subject(f"Q{number}") for number in range(100, 200)), *OBJECTS)
    assert len(query(client, limit=3)) == 3
    paths = [path for path, _, _ in server.requests]
    assert (paths.count("/sparql"), paths.count("/wikidata")) == (2, 2)  # subjects, and labels
    assert "LIMIT 30" in server.requests[0][1]["query"]
    assert query(client, limit=0) == []


def test_more_subjects_than_one_request_takes_are_asked_in_several(client, server):
    server.publish(*(subject(f"Q{number}") for number in range(100, 175)), *OBJECTS)
    assert len(query(client)) == 75
    calls = [parameters for path, parameters, _ in server.requests if path == "/wikidata"]
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for parameters in calls:
        sizes["claims" in parameters["props"]].append(len(parameters["ids"].split("|")))
    assert sizes[True] == [10] * 7 + [5] and max(sizes[False]) <= 50


def test_a_merged_object_is_the_one_it_was_merged_into(client, server):
    server.publish(subject("Q145", new="Q31"), *OBJECTS)
    server.redirects["Q31"] = "Q30"
    assert [(update.new_id, update.new) for update in query(client)] == [("Q30", "Sunak")]


def test_two_objects_that_were_merged_are_no_update(client, server):
    counts = UpdateCounts()
    server.publish(subject("Q145", old="Q31", new="Q30"), *OBJECTS)
    server.redirects["Q31"] = "Q30"
    assert query(client, counts=counts) == []
    assert counts.reasons == {"same_object": 1}


def test_odd_rows_of_the_query_service_are_left_out(client, server):
    server.publish(subject("Q145"), *OBJECTS)
    rows = [{"item": {"value": value}} for value in ("http://x/entity/Q145", "t1234", "http://x/L5", "Q0", "Q1|Q2&x=y")]
    server.faults.append(Fault(body=json.dumps({"results": {"bindings": rows}}).encode()))
    assert [update.subject_id for update in query(client)] == ["Q145"]
    assert server.requests[1][1]["ids"] == "Q145"


def test_faults_on_the_way_change_nothing(client, server, pauses):
    server.publish(subject("Q145"), *OBJECTS)
    server.faults.extend([Fault(429, headers={"Retry-After": "3"}), Fault(500), Fault(200, b'{"results":')])
    assert len(query(client)) == 1
    assert pauses == [3.0, 2.0, 4.0]


def test_a_server_that_fails_for_good_ends_the_query_and_the_next_goes_on_from_the_cache(client, server):
    server.publish(subject("Q145"), *OBJECTS)
    assert len(query(client, limit=1)) == 1
    before = len(server.requests)
    server.faults.extend([Fault(503)] * 50)
    assert len(query(client, limit=1)) == 1 and len(server.requests) == before
    with pytest.raises(FetchFailed, match="later"):
        fetch_leads(client, ["X"])


def test_a_relation_that_the_query_service_cannot_answer_is_named(client, server):
    server.faults.extend([Fault(500, b"java.util.concurrent.TimeoutException")] * 5)
    with pytest.raises(FetchFailed, match=r"P6.*leave this relation out"):
        query(client)


# --- leads


def test_leads_come_by_the_titles_given_also_of_moved_pages_and_in_parts(client, server):
    server.extracts = {"United Kingdom": "The UK is a country. It is in Europe.", "Rishi Sunak": "He is a politician."}
    server.moved = {"Sunak": "Rishi Sunak"}
    leads = fetch_leads(client, ["united Kingdom", "Sunak", "Nowhere", "", "Sunak"])
    assert leads == {"united Kingdom": "The UK is a country. It is in Europe.", "Sunak": "He is a politician."}
    path, parameters, _ = server.requests[0]
    assert path == "/en/wikipedia" and {"exintro", "explaintext"} <= set(parameters) and len(server.requests) == 3


@pytest.mark.slow
def test_many_titles_are_asked_in_several_requests(client, server):
    server.extracts = {f"P{number}": f"Text {number}." for number in range(45)}
    assert fetch_leads(client, [f"P{number}" for number in range(45)], "de") == {
        name: text for name, text in server.extracts.items()
    }
    assert max(len(parameters["titles"].split("|")) for _, parameters, _ in server.requests) == 20


def test_a_lead_ends_with_its_tenth_sentence(client, server):
    server.extracts = {"X": "\n".join(f"This is sentence number {word}." for word in "abcdefghijklm")}
    assert fetch_leads(client, ["X"])["X"].count("sentence") == 10
    assert first_sentences("One is here. Two is there. Three is off.", 2) == "One is here. Two is there."
    assert first_sentences("一。二。三。", 2) == "一。二。"
    assert first_sentences("") == ""


@pytest.mark.slow
def test_endless_continuation_is_bounded(client, server):
    server.extracts = {"X": "Text here."}
    reply = b'{"continue":{"excontinue":%d},"query":{"pages":[{"title":"X","extract":"Text here."}]}}'
    server.faults.extend(Fault(body=reply % number) for number in range(500))
    assert fetch_leads(client, ["X"]) == {"X": "Text here."}
    assert len(server.requests) == 50


def test_an_unknown_language_asks_nobody(client, server):
    with pytest.raises(BadSettings, match="en, de"):
        fetch_leads(client, ["X"], "evil.example/x?")
    assert server.requests == []
