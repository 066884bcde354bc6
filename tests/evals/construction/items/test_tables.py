"""The items of a construction in SQL."""

import json
from pathlib import Path

from emend.evals.construction.items.line import read_item_lines
from emend.evals.results.aggregate.database import open_database
from tests.evals.construction.test_build import built


def test_items_of_a_construction_are_a_table_with_their_texts_and_rejections(tmp_path: Path) -> None:
    _, out = built(tmp_path)
    with open_database(out / "run") as tables:
        rows = tables.query("SELECT probe, text, item, result, rejections, attempts FROM items").rows
    shown = {
        probe: (text, json.loads(item), json.loads(result) if result else None, rejections, attempts)
        for probe, text, item, result, rejections, attempts in rows
    }
    lines = read_item_lines(out / "run")
    assert shown == {
        line.probe: (
            line.text,
            line.item,
            line.result,
            [rejection.model_dump() for rejection in line.rejections],
            line.attempts,
        )
        for line in lines
    }
    assert any(line.rejections for line in lines)
