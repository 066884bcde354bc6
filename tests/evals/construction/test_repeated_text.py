"""Items with a text that another one has."""

import json
from pathlib import Path

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import build
from tests.evals.construction.authors import TASKS, fact_of, write_akew
from tests.paths import DATA
from tests.provider.protocols import Asked
from tests.provider.server import Provider


def test_of_two_items_with_one_text_in_other_typography_the_first_is_kept(tmp_path: Path):
    zoo = [json.loads(line) for line in (DATA / "construction" / "akew_zoo.jsonl").read_text("utf-8").splitlines()]
    jazz = [row for row in zoo if row["subject"] == "Bob Hale"]
    first, second = (str(row["text"]) for row in jazz if row["kind"] in ("short", "duplicate"))
    assert first != second

    def author(asked: Asked) -> str:
        if TASKS["paragraph"] not in asked.prompt:
            return write_akew(asked.prompt)
        return str(second if "style" in fact_of(asked.prompt) else first)

    facts = tmp_path / "facts.csv"
    facts.write_text("subject,relation,object\nBob Hale,genre,jazz\nBob Hale,style,jazz\n")
    with Provider(author) as provider:
        card = build("akew", BuildConfig(source=str(facts), model=provider.spec("chat", "author")), tmp_path / "out")
    assert card.dropped == {"repeated text": 1}
    (row,) = json.loads((tmp_path / "out" / "CounterFact.json").read_text("utf-8"))
    assert row["requested_rewrite"]["fact_new_uns"] == first
