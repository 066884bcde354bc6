"""A reproduced table: figures beside the published ones, and what is not alike."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.papers.reproduce.collect import Figure, figures
from emend.evals.papers.reproduce.execute import RunOutcome, outcome_of
from emend.evals.papers.reproduce.needs import plan_cells
from emend.evals.papers.reproduce.recipe import Recipe, with_runs
from emend.evals.papers.show.export import export, rows
from emend.evals.papers.show.figures import FigureMarks, render_cells, render_figures
from emend.evals.papers.tables import table
from emend.memory.errors import BadSettings
from tests.evals.command_line import emend
from tests.evals.made import record
from tests.evals.made import write_run as write_made_run
from tests.evals.papers.runs import EDITED, percent, write_run
from tests.paths import DATA

AKEW, RECOE = table("akew:2"), table("recoe:4")


def planned_akew() -> Any:
    models = dict.fromkeys(("GPT2-XL", "GPT-J (6B)", "Mistral (7B)"), "tiny")
    cells = [cell for cell in AKEW.cells if cell.data == "MQuAKE-CF" and cell.method in ("FT", "ROME")]
    planned = plan_cells(AKEW, models, cells)
    return planned, with_runs(Recipe(table="akew:2"), AKEW, planned, {"limit": 4})


def reproduced(home: Path, **more: Any) -> list[Figure]:
    """ROME ran over triplets, FT failed."""
    planned, recipe = planned_akew()
    outcomes = []
    for run in recipe.runs:
        if run.config.editors == ("rome",):
            scores = {name: {("rome", "EditAcc"): [1.0, 0.0, 0.0, 0.0]} for name in run.config.settings}
            options = {"dataset": "mquake_cf"}
            write_run(home / run.name, "akew", EDITED, scores, mode="single", options=options, limit=4, **more)
            outcomes.append(outcome_of(home / run.name))
        else:
            outcomes.append(RunOutcome(folder=str(home / run.name), error="ModelError: no room"))
    return figures(AKEW, planned, recipe, outcomes)


def test_each_figure_has_a_number_or_a_reason(tmp_path: Path) -> None:
    listed = {(f.cell.model, f.cell.method, f.cell.setting): f for f in reproduced(tmp_path)}
    assert len(listed) == 15
    for model in ("GPT2-XL", "GPT-J (6B)", "Mistral (7B)"):
        rome, ft = listed[model, "ROME", "struct"], listed[model, "FT", "unstruct"]
        assert (rome.mean, rome.n, rome.published_n, rome.reason) == (25.0, 4, 436, "")
        assert rome.low is not None and rome.high is not None and rome.low < 25 < rome.high
        assert rome.difference == pytest.approx(25.0 - rome.cell.value)
        assert any(note == "model: tiny instead of the paper's" for note in rome.notes)
        assert any(note == "data: a sample, --limit 4" for note in rome.notes)
        assert (ft.mean, ft.reason) == (None, "ModelError: no room")


def test_figures_over_the_papers_printed_examples_say_so(tmp_path: Path) -> None:
    listed = reproduced(tmp_path, provenance={"paper's examples only": True})
    notes = {note for figure in listed if figure.mean is not None for note in figure.notes}
    assert "data: only the examples that the paper prints" in notes


def test_figures_over_data_made_anew_say_so(tmp_path: Path) -> None:
    listed = reproduced(tmp_path, provenance={"made anew": ["superlative"]})
    notes = {note for figure in listed if figure.mean is not None for note in figure.notes}
    assert "data: superlative made anew, not the paper's file" in notes


def test_the_reason_is_that_of_the_figures_own_run() -> None:
    models = dict.fromkeys(("GPT2-XL", "GPT-J (6B)", "Mistral (7B)"), "tiny")
    planned = plan_cells(AKEW, models, [cell for cell in AKEW.cells if cell.method == "ROME"])
    recipe = with_runs(Recipe(table="akew:2"), AKEW, planned, {})
    outcomes = [
        RunOutcome(folder="none", error=run.config.benchmark_options.get("dataset", "mquake_cf")) for run in recipe.runs
    ]
    reasons = {figure.cell.data: figure.reason for figure in figures(AKEW, planned, recipe, outcomes)}
    assert reasons == {"CounterFact": "counterfact", "MQuAKE-CF": "mquake_cf", "WikiUpdate": "wiki_update"}


def test_what_is_not_alike_everywhere_is_said_once(tmp_path: Path) -> None:
    listed = reproduced(tmp_path)
    marks = FigureMarks(listed)
    assert "model: tiny instead of the paper's" in marks.common
    failed = next(figure for figure in listed if figure.mean is None)
    assert marks.of(failed) == "a" and marks.letters == {"ModelError: no room": "a"}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_nothing_is_cut_off_in_a_terminal(tmp_path: Path, width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(render_figures(AKEW, reproduced(tmp_path), console))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    assert text.count("76.61") == text.count("25.0 (-51.6)") == 1
    assert "6 of 15 figures have a number; without one: now: 9" in " ".join(text.split())


def test_forms_for_other_programs(tmp_path: Path) -> None:
    listed = reproduced(tmp_path)
    lines = list(csv.DictReader(io.StringIO(export(AKEW, listed, "csv"))))
    assert len(lines) == 15 and {line["run_model"] for line in lines} == {"tiny"}
    assert lines[0]["printed"] and set(lines[0]) == set(rows(listed)[0])
    latex = export(AKEW, listed, "latex")
    assert latex.count(r" \\") == 2 + 2 * 6 and "& 25.0 [" in latex and r"95 \%" in latex
    bodies = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in bodies} == {5}
    markdown = export(AKEW, listed, "markdown").splitlines()
    assert {line.count("|") for line in markdown if line.startswith("|")} == {7}
    with pytest.raises(BadSettings, match="latex"):
        export(AKEW, listed, "latx")


def test_figures_one_by_one_say_whether_they_can_be_run(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    console.print(render_cells(reproduced(tmp_path)))
    assert "GPT2-XL, ROME, MQuAKE-CF, struct" in out.getvalue() and "no room" in out.getvalue()


def test_a_mean_over_schemes_is_made_of_their_figures(tmp_path: Path) -> None:
    models = dict.fromkeys(("Tulu 7B", "Tulu 13B", "Tulu 33B"), "tiny")
    cells = [c for c in RECOE.cells if (c.model, c.method, c.setting) == ("Tulu 7B", "InputAug", "direct")]
    planned = plan_cells(RECOE, models, cells)
    recipe = with_runs(Recipe(table="recoe:4"), RECOE, planned, {})
    outcomes = []
    for run in recipe.runs:
        scheme = run.config.benchmark_options["schemes"]
        values = {"counting": [1.0, 0.0], "sorting": [1.0, 1.0]}.get(scheme)
        if values:
            scores = {"atomic": {("in_context", scheme): values}}
            write_run(tmp_path / run.name, "recoe", percent(scheme), scores, options={"prompting": "direct"})
        outcomes.append(outcome_of(tmp_path / run.name, "" if values else "no file"))
    mean = next(f for f in figures(RECOE, planned, recipe, outcomes) if f.cell.data == "average")
    assert (mean.mean, mean.n) == (75.0, 4) and "mean: over 2 of the paper's 6" in mean.notes


def test_what_was_not_given_is_the_reason() -> None:
    elken = table("elken:5")
    planned = plan_cells(elken, dict.fromkeys(("GPT-J", "Mistral 7B", "Llama 3"), "tiny"))
    recipe = with_runs(Recipe(table="elken:5"), elken, planned, {})
    reasons = {figure.cell.model: figure.reason for figure in figures(elken, planned, recipe, [])}
    assert recipe == Recipe(table="elken:5")
    assert "--judge MODEL" in reasons["GPT-J"] and "--model 'GPT-4=openai:NAME'" in reasons["GPT-4"]
    docter = table("docter:8")
    planned = plan_cells(docter, {"": "tiny"})
    reason = figures(docter, planned, with_runs(Recipe(table="docter:8"), docter, planned, {}), [])[0].reason
    assert reason == "needs triplets: create them with --extract tool=rules"


def test_an_empty_cell_of_triplets_says_what_is_true_of_triplets(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    source = ("--benchmark", "docter", "--data", str(DATA / "docter"), "--benchmark-option", "blocks=edit_success")
    assert emend("extract", *source, "--embedding", "lexical", "--out", str(file)) == 0
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("".join(json.dumps(row | {"triplets": []}) + "\n" for row in rows), encoding="utf-8")
    docter = table("docter:6")
    cells = [cell for cell in docter.cells if (cell.method, cell.data) == ("Tool-based", "en")]
    planned = plan_cells(docter, {"": "tiny"}, cells)
    recipe = with_runs(Recipe(table="docter:6", triples={"tool": str(file)}), docter, planned, {})
    options = {"blocks": "edit_success", "triples": str(file)}
    config: dict[str, Any] = {"data": str(DATA / "docter"), "benchmark_options": options, "embedding": "lexical"}
    folder = write_made_run(tmp_path / "run", [record("1")], "docter", **config)
    outcome = RunOutcome(folder=str(folder), units=1, finished=1)
    reasons = {figure.cell.metric: figure.reason for figure in figures(docter, planned, recipe, [outcome])}
    assert all("no error to sort" in reasons[error] for error in ("AT", "IS", "IR")), reasons
    assert "extracted triplet" in reasons["Precision"] and "extracted triplet" in reasons["F1"]
    assert reasons["#Tri"] == "" and "answers" not in " ".join(reasons.values())


def test_a_table_says_which_preset_sets_up_which_method() -> None:
    docter = table("docter:2")
    cells = [cell for cell in docter.cells if cell.model == "LLaMA2-7B" and cell.method in ("IKE(D)", "RAG")]
    planned = plan_cells(docter, {"LLaMA2-7B": "tiny"}, cells)
    for preset, line in (
        ("paper", "preset: paper, for IKE(D); others use Emend's settings"),
        ("", "preset: none"),
    ):
        common = {"preset": preset} if preset else {}
        recipe = with_runs(Recipe(table="docter:2"), docter, planned, common)
        listed = figures(docter, planned, recipe, [RunOutcome(folder="none") for _ in recipe.runs])
        assert recipe.preset == preset and line in export(docter, listed, "markdown")
        assert {row["preset"] for row in rows(listed)} == {preset, ""}
    with pytest.raises(BadSettings, match="did you mean 'paper'"):
        with_runs(Recipe(table="docter:2"), docter, planned, {"preset": "papr"})
