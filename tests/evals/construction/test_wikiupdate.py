"""WikiUpdate from a dump and from servers: updates with leads, the benchmark of them, and the history of its facts."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import build
from emend.evals.construction.sources.wikiupdate import COUNTS, HISTORY, UPDATES, prepare_updates, read_source
from emend.evals.evaluate.resources import load_benchmark
from emend.memory.errors import BadData, BadSettings, RunRefused
from emend.memory.store.jsonl import edit_from
from tests.evals.construction.authors import author
from tests.evals.construction.wikidata.entities import dump_of, entity, statement
from tests.evals.construction.wikidata.wiki_server import serving
from tests.provider.server import Provider

OBJECTS = (entity("Q10", "Johnson"), entity("Q30", "Sunak"))
LEADS = {"Veldania page": "Veldania is a land in the north.", "Sunak page": "Sunak has led Veldania since 2022."}


def land(id_: str, label: str) -> dict[str, Any]:
    claims = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]
    return entity(id_, label, claims)


ENTITIES = (land("Q145", "Veldania"), land("Q146", "Ostria"), entity("Q2", "same", [statement("P6", "Q10", "2019")]))


def config(folder: Path, source: str = "", **fields: str) -> BuildConfig:
    (folder / "dump.json").write_bytes(dump_of(*ENTITIES, *OBJECTS))
    rows = [json.dumps({"title": title, "lead": lead}) for title, lead in LEADS.items()]
    (folder / "leads.jsonl").write_text("\n".join(rows) + "\n")
    usual = {"source": source or str(folder / "dump.json"), "since": "2021-04-01", "leads": str(folder / "leads.jsonl")}
    return BuildConfig.model_validate(usual | {"model": "tiny"} | fields)


def test_a_dump_becomes_a_benchmark_with_dates_and_the_history_of_each_fact(tmp_path: Path):
    out = tmp_path / "out"
    with Provider(author) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        card = build("wikiupdate", config(tmp_path, **models), out)
        asked = provider.count
        assert build("wikiupdate", config(tmp_path, **models), out).content == card.content
        assert provider.count == asked
    assert (card.items, card.dropped) == (2, {"subject": 1})  # there is no lead of Ostria
    assert sum(card.relations.values()) == 1 and "(100.0%)" in (out / "card.md").read_text("utf-8")
    assert card.source["licence"].startswith("Wikidata: CC0") and "candidates: unchanged" in str(card.source["dropped"])
    (row,) = json.loads((out / "WikiUpdate.json").read_bytes())
    edit = row["requested_rewrite"]
    assert edit["time_true"] == {"start_time": "2019-07-24", "end_time": "2022-10-25"}
    assert (edit["target_true"]["id"], edit["target_new"]["id"]) == ("Q10", "Q30")
    benchmark, _ = load_benchmark(str(out), None, {})
    (case,) = benchmark.cases("struct")
    assert case.probes[0].prompt.startswith("The head of government of Veldania")
    history = [edit_from(json.loads(line)) for line in (out / HISTORY).read_text().splitlines()]
    assert [(each.target_new, each.time) for each in history] == [("Johnson", "2019-07-24"), ("Sunak", "2022-10-25")]


@pytest.mark.slow
def test_the_servers_give_the_same_updates_as_a_dump(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    of_dump = prepare_updates(config(tmp_path), tmp_path / "a").read_text()
    with serving() as server:
        server.publish(*ENTITIES, *OBJECTS)
        server.extracts |= LEADS
        asking = config(tmp_path, "wikidata", contact="me@example.org", leads="")
        of_servers = prepare_updates(asking, tmp_path / "b", server.servers).read_text()
    assert of_servers == of_dump and of_dump.count("\n") == 2
    assert json.loads((tmp_path / "b" / COUNTS).read_bytes())["reasons"] == {"unchanged": 1}


@pytest.mark.slow
def test_updates_are_read_once_and_never_with_other_options(tmp_path: Path):
    out = tmp_path / "out"
    before = prepare_updates(config(tmp_path), out)
    before.write_text(before.read_text().partition("\n")[0] + "\n")
    assert prepare_updates(config(tmp_path), out).read_text().count("\n") == 1
    with pytest.raises(RunRefused, match="--out"):
        prepare_updates(config(tmp_path, since="2020-01-01"), out)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"since": "soon"}, "--since"),
        ({"since": ""}, "--since"),
        ({"leads": ""}, "--contact"),
        ({"leads": "", "contact": "nobody"}, "nobody"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_read(tmp_path: Path, fields: dict[str, str], named: str):
    with pytest.raises(BadSettings) as error:
        prepare_updates(config(tmp_path, **fields), tmp_path / "out")
    assert named in str(error.value) and not (tmp_path / "out" / UPDATES).exists()


def test_a_wrong_file_of_leads_or_updates_is_refused_with_its_line(tmp_path: Path):
    wrong = config(tmp_path)
    (tmp_path / "leads.jsonl").write_text('{"title": "A", "lead": "B"}\n{"title": 1}\n')
    with pytest.raises(BadData, match="line 2"):
        prepare_updates(wrong, tmp_path / "out")
    (tmp_path / "made.jsonl").write_text('{"update": {"subject": "A"}, "cloze": "{} is", "question": "{}?"}\n')
    with Provider(author) as provider, pytest.raises(BadData, match="line 1, field 'update.subject_id'"):
        build("wikiupdate", config(tmp_path, str(tmp_path / "made.jsonl"), model=provider.spec("chat")), tmp_path / "b")


def test_a_separator_of_lines_within_a_lead_ends_no_line(tmp_path: Path):
    asked = config(tmp_path)
    lead = "Veldania is a land.\u2028Its north is cold.\x85"
    row = json.dumps({"title": "Veldania page", "lead": lead}, ensure_ascii=False)
    (tmp_path / "leads.jsonl").write_text(row + "\n", "utf-8")
    updates = prepare_updates(asked, tmp_path / "out")
    items, _ = read_source(str(updates))
    assert len(list(items)) == 2 and lead in updates.read_text("utf-8")
