"""Faults of weight edits in the report: sentences, and no best mark for an editor that broke its model."""

import json
from pathlib import Path
from typing import Any

from emend.evals.case import Metric
from emend.evals.config.mode import NO_CHECKPOINTS
from emend.evals.log.lines import COSTS, EDIT_CHECK, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.side_effects import broken_places, edit_checks_of, perplexities_of, side_effect_notes
from emend.evals.results.aggregate.tables import MetricTable, TableRow

PLACE = {"setting": "s", "mode": "single", "repeat": 0, "standing": 1}


def check(editor: str, edits: str, took: int, turned: int) -> dict[str, Any]:
    counts = {"checked": 1, "took": took, "neighbours": 4, "turned": turned}
    return PLACE | {"act": EDIT_CHECK, "editor": editor, "edits": edits} | counts


def perplexity(editor: str, nats: float) -> dict[str, Any]:
    return PLACE | {"act": PERPLEXITY, "editor": editor, "edits": "a", "unscored": "", "nats": [nats], "tokens": [1]}


def write(folder: Path, *lines: dict[str, Any]) -> None:
    before = {"act": PERPLEXITY_BEFORE, "texts": "t", "nats": [3.0], "tokens": [1]}
    (folder / COSTS).write_text("".join(json.dumps(line) + "\n" for line in (before, *lines)), encoding="utf-8")


def test_checks_are_summed_over_edits_and_of_two_of_the_same_edits_the_later_counts(tmp_path: Path) -> None:
    write(
        tmp_path, check("rome", "a", 0, 4), check("rome", "a", 1, 1), check("rome", "b", 0, 0), check("ft", "a", 1, 3)
    )
    rome_row, ft_row = edit_checks_of(tmp_path, ["rome", "ft"])
    assert (rome_row.checked, rome_row.took, rome_row.neighbours, rome_row.turned) == (2, 1, 8, 1)
    assert (ft_row.editor, ft_row.turned) == ("ft", 3)
    assert [place.editor for place in broken_places([], [rome_row, ft_row])] == ["ft"]
    notes = list(side_effect_notes([], [rome_row, ft_row]))
    assert any("1 of 2 edits" in note and note.startswith("rome") for note in notes)
    assert any("3 of 4 neighbouring" in note and note.startswith("ft") for note in notes)


def test_checks_of_a_sequence_are_summed_over_its_turns(tmp_path: Path) -> None:
    turns = [check("rome", edits, 1, 3) | {"mode": "sequential:1", "standing": n} for n, edits in enumerate("ab", 1)]
    write(tmp_path, *turns)
    (row,) = edit_checks_of(tmp_path, ["rome"])
    assert (row.checked, row.took, row.neighbours, row.turned) == (2, 2, 8, 6)
    assert [place.mode for place in broken_places([], [row])] == ["sequential:1"]


def test_half_of_the_neighbours_is_not_most_of_them(tmp_path: Path) -> None:
    write(tmp_path, check("rome", "a", 1, 2), check("ft", "a", 1, 1), check("ft", "b", 1, 4))
    assert [place.editor for place in broken_places([], edit_checks_of(tmp_path, ["rome", "ft"]))] == ["ft"]


def test_a_perplexity_more_than_doubled_breaks_a_model(tmp_path: Path) -> None:
    write(tmp_path, perplexity("rome", 3.5), perplexity("lora", 4.0), perplexity("ft", 2000.0))
    rows = perplexities_of(tmp_path, ["rome", "lora", "ft"], NO_CHECKPOINTS)
    assert [place.editor for place in broken_places(rows, [])] == ["lora", "ft"]
    assert [note.split(":")[0] for note in side_effect_notes(rows, [])] == ["lora", "ft"]


def test_a_broken_model_gets_no_star() -> None:
    metric = Metric(name="EM", value="match", kinds=("efficacy",))

    def row(editor: str, mean: float, broken: bool = False) -> TableRow:
        value = MetricRow(
            setting="s", mode="single", editor=editor, metric="EM", mean=mean, low=0.0, high=1.0, n=4, unscored=0
        )
        return TableRow((editor,), {"EM": value}, broken)

    rows = (row("lora", 1.0, broken=True), row("rome", 0.5), row("ft", 0.25))
    assert MetricTable("b", "t", ("editor",), (metric,), rows).marks(metric) == ["", "highest", ""]
