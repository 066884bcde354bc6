"""Counts on the card: judges and readers who err a known number of times, in every pipeline that asks them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import build
from emend.evals.construction.card import Card, FilterCount
from emend.evals.construction.registry import CONSTRUCTIONS
from tests.evals.construction import test_questions, test_wikiupdate
from tests.evals.construction.authors import TASKS
from tests.evals.construction.sources.tables import write_table
from tests.evals.construction.wikidata.entities import dump_of
from tests.provider.protocols import Asked
from tests.provider.server import Provider

pytestmark = pytest.mark.slow
COUNT = 8
TYPES = """[move]
split = "test"
template = "{A} has moved to {B}."
roles.A = { subject_of = "place of birth" }
roles.B = { object_of = "place of birth" }
impacts = [{ subject = "A", relation = "residence", object = "B", question = "In which town does {} live?" }]
"""
RIVERS = ("Brisko", "Halmen", "Torvay", "Skerry", "Ostrin", "Calder", "Marnow", "Vesken")


def planted(kind: str, prompt: str, errors: int, wrong: str) -> Callable[[Asked], str]:
    """The usual replies, but for so many first ones to a prompt."""
    left = [errors]

    def reply(asked: Asked) -> str:
        if TASKS[prompt] in asked.prompt and left[0]:
            left[0] -= 1
            return wrong
        return str(CONSTRUCTIONS.load(kind).sample(asked.prompt))

    return reply


def card_of(kind: str, source: str, folder: Path, reply: Callable[[Asked], str], **fields: Any) -> Card:
    with Provider(reply) as provider:
        models = {"model": provider.spec("chat"), "concurrency": 1}
        config = BuildConfig.model_validate({"source": source, "recipe": "paper", **models, **fields})
        return build(kind, config, folder / "out", needs_review=False)


def counts(card: Card, name: str) -> tuple[int, int, int]:
    """How many reached a filter, passed it and were rejected by it."""
    count: FilterCount = next(each for each in card.filters if each.name == name)
    return count.reached, round((count.passed.mean or 0) * count.reached), count.rejected or 0


def locks(folder: Path) -> str:
    columns = "subject,relation,object,prompt,old_answer"
    rows = [f"Lock {n},builder,Ana Number{n},The builder of {{}} is,Luis Old{n}" for n in range(COUNT)]
    (folder / "facts.csv").write_text("\n".join((columns, *rows)) + "\n")
    return str(folder / "facts.csv")


@pytest.mark.parametrize("errors", [0, 1, 7])
@pytest.mark.parametrize("kind", ["akew", "docter"])
def test_each_paragraph_that_the_judge_denies_is_counted_once(kind: str, errors: int, tmp_path: Path):
    reply = planted(kind, "conveys", errors, "False")
    card = card_of(kind, locks(tmp_path), tmp_path, reply, overrides={"build": {"attempts": 1}})
    assert counts(card, "conveys") == (COUNT, COUNT - errors, errors)
    assert card.dropped == ({"conveys": errors} if errors else {})


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_wording_of_a_chain_that_the_judge_denies_is_counted_once(errors: int, tmp_path: Path):
    reply = planted("chains", "asks_same", errors, "False")
    card = card_of("chains", str(write_table(tmp_path)), tmp_path, reply, cases=COUNT)
    reached, _, rejected = counts(card, "asks_same")
    assert (reached, rejected) == (COUNT, errors)


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_question_that_the_facts_do_not_support_is_counted_once(errors: int, tmp_path: Path):
    rows = [f"{name} {n},length,{500 + 13 * n + 100 * m} km" for n in range(6) for m, name in enumerate(RIVERS)]
    (tmp_path / "facts.csv").write_text("\n".join(("subject,relation,object", *rows)) + "\n")
    fields = {"schemes": "comparative", "cases": COUNT}
    reply = planted("recoe", "answer_follows", errors, "Neither")
    card = card_of("recoe", str(tmp_path / "facts.csv"), tmp_path, reply, **fields)
    assert counts(card, "supported") == (COUNT, COUNT - errors, errors)


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_fact_of_a_document_that_the_judge_does_not_find_is_counted_once(errors: int, tmp_path: Path):
    (tmp_path / "documents").mkdir()
    for name in RIVERS:
        more = (
            "It is known for its ferries, its mills and the fish that is caught in spring and sold in the towns. " * 2
        )
        (tmp_path / "documents" / f"{name}.txt").write_text(
            f"{name} is a long river that runs through {name}land. {more}"
        )
    reply = planted("facts", "conveys", errors, "False")
    card = card_of("facts", str(tmp_path / "documents"), tmp_path, reply, overrides={"build": {"attempts": 1}})
    assert counts(card, "conveys") == (COUNT, COUNT - errors, errors)


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_event_that_the_judge_does_not_find_in_its_report_is_counted_once(errors: int, tmp_path: Path):
    (tmp_path / "types.toml").write_text(TYPES)
    rows = [f"{name} Vale,place of birth,{name}ton" for name in RIVERS]
    (tmp_path / "facts.csv").write_text("\n".join(("subject,relation,object", *rows)) + "\n")
    fields = {"relations": str(tmp_path / "types.toml"), "cases": COUNT, "recipe": "best"}
    reply = planted("elken", "conveys", errors, "False")
    once = {"build": {"attempts": 1}}
    card = card_of("elken", str(tmp_path / "facts.csv"), tmp_path, reply, overrides=once, **fields)
    assert counts(card, "conveys") == (COUNT, COUNT - errors, errors)


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_pair_of_leads_that_the_judge_denies_is_counted_once(errors: int, tmp_path: Path):
    lands = [test_wikiupdate.land(f"Q{200 + n}", f"{name}land") for n, name in enumerate(RIVERS)]
    (tmp_path / "dump.json").write_bytes(dump_of(*lands, *test_wikiupdate.OBJECTS))
    leads = {f"{name}land page": f"{name}land is a land in the north." for name in RIVERS}
    leads["Sunak page"] = "Sunak has led many lands since 2022."
    rows = [json.dumps({"title": title, "lead": lead}) for title, lead in leads.items()]
    (tmp_path / "leads.jsonl").write_text("\n".join(rows) + "\n")
    fields = {"since": "2021-04-01", "leads": str(tmp_path / "leads.jsonl")}
    reply = planted("wikiupdate", "conveys", errors, "False")
    card = card_of("wikiupdate", str(tmp_path / "dump.json"), tmp_path, reply, **fields)
    assert counts(card, "conveys") == (COUNT, COUNT - errors, errors)


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_fact_that_a_reader_does_not_find_in_its_document_is_counted_once(errors: int, tmp_path: Path):
    (tmp_path / "documents").mkdir()
    for name in RIVERS[:4]:
        (tmp_path / "documents" / f"{name}.md").write_text(test_questions.document(name))
    left = [errors]

    def reply(asked: Asked) -> str:
        if TASKS["read_with"] in asked.prompt and left[0]:
            left[0] -= 1
            return "It does not say so."
        return test_questions.answer_all(asked)

    card = card_of("questions", str(tmp_path / "documents"), tmp_path, reply, recipe="best")
    assert counts(card, "answerable") == (COUNT, COUNT - errors, errors)


@pytest.mark.parametrize("errors", [0, 1, 7])
def test_each_question_that_a_reader_chooses_otherwise_in_is_counted_among_all_of_them(errors: int, tmp_path: Path):
    (tmp_path / "topics.toml").write_text('[topics]\nBusiness = "test"\n')
    reply = planted("tendencies", "tendency_choice", errors, "Perhaps.")
    card = card_of("tendencies", str(tmp_path / "topics.toml"), tmp_path, reply, recipe="best", limit=1)
    assert counts(card, "chosen") == (80, 80 - errors, errors)
    assert counts(card, "order")[0] == counts(card, "not_guessable")[0] == 60 - min(errors, 6)
    assert counts(card, "one_question") == (80, 80, 0)
