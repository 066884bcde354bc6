"""Every one of the 1,494 published figures can be run, or a reason says what it lacks."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.agents.weight_differences import difference_remedy
from emend.evals.config.run_config import RunConfig
from emend.evals.log.manifest import Manifest
from emend.evals.papers.reproduce.needs import STATUSES, Need, PlannedCell, coverage_rows, plan_cells, status_counts
from emend.evals.papers.reproduce.recipe import Recipe, lacking, with_files, with_runs
from emend.evals.papers.show.coverage import render_coverage
from emend.evals.papers.tables import (
    DIMENSIONS,
    PaperTable,
    gigabytes_needed,
    paper,
    paper_models,
    papers,
    places,
    rules,
    table_rules,
)
from emend.evals.results.aggregate.columns import MetricRow
from emend.memory.errors import BadSettings
from tests.params import first_quick, mostly_slow
from tests.paths import ROOT

TABLES = [table for paper in papers() for table in paper.tables if table.cells]
ONE_OF_EACH_PAPER = {table.paper: table for table in TABLES}.values()


def test_the_ledger_counts_every_figure_by_one_of_five_words() -> None:
    rows = coverage_rows(TABLES)
    counts = status_counts(rows)
    assert counts == {"now": 424, "option": 279, "own": 399, "model": 253, "no": 139} and counts.total() == 1_494
    for row in rows:
        assert bool(row.reason) == (row.status != "now"), row
    reasons = {row.reason for row in rows if row.status == "no"}
    assert "no metric of a run corresponds to it" not in reasons  # every reason is written for people
    assert len(reasons) <= 8


@pytest.mark.slow
def test_the_ledger_says_which_word_is_how_often_and_counts_the_first_two() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(render_coverage(coverage_rows(TABLES)))
    text = out.getvalue()
    for count, word in ((424, "now"), (279, "with an option"), (399, "with your file or weights"), (139, "no")):
        assert f"{count}  {word}\n" in re.sub(" +\n", "\n", text)
    assert "703 of 1,494 figures" in text


def test_the_docs_have_the_counts_of_the_ledger() -> None:
    counts = status_counts(coverage_rows(TABLES))
    docs = (ROOT / "docs/how-to/papers.md").read_text(encoding="utf-8")
    for status, word in STATUSES.items():
        assert f"| {word} | {counts[status]:,} |" in docs, word
    assert f"{counts['now'] + counts['option']:,} of the 1,494" in docs


def test_every_open_model_says_what_is_known_of_its_weights() -> None:
    open_models = {name: model for name, model in paper_models().items() if model.hub}
    assert len(open_models) == 13 and all(model.card and model.parameters for model in open_models.values())
    differences = {name for name, model in open_models.items() if difference_remedy(model.hub)}
    assert differences == {"Tulu 7B", "Tulu 13B", "Tulu 33B"}
    assert all("difference" in open_models[name].card for name in differences)


def test_a_difference_is_no_model_and_the_recovered_weights_are_one() -> None:
    table = next(table for table in TABLES if table.id == "recoe:4")
    cells = [cell for cell in table.cells if cell.model == "Tulu 7B" and cell.data not in ("superlative", "average")]
    plain = plan_cells(table, {}, cells)
    assert {(each.status, each.model) for each in plain} == {("own", "")}
    reasons = {lacking(each, Recipe(table=table.id)) for each in plain}
    assert len(reasons) == 1 and "weight_diff.py recover" in (reason := reasons.pop()), reason
    assert "--model 'Tulu 7B=hf:FOLDER'" in reason and "<|assistant|>" in reason
    assert with_runs(Recipe(table=table.id), table, plain, {}).runs == ()
    recovered = plan_cells(table, {"Tulu 7B": "hf:recovered/tulu-7b"}, cells)
    assert {each.status for each in recovered} == {"now"}
    assert {run.config.model for run in with_runs(Recipe(table=table.id), table, recovered, {}).runs} == {
        "hf:recovered/tulu-7b"
    }


def test_superlative_and_the_means_over_it_need_its_file_with_any_model() -> None:
    for table in (table for table in TABLES if table.paper == "recoe"):
        for each in plan_cells(table, {cell.model: "tiny" for cell in table.cells}):
            is_with_file = each.cell.data in ("superlative", "average")
            assert (each.status == "own") == is_with_file, each
            assert ("superlative_file=FILE" in each.reason) == is_with_file


@pytest.mark.slow
@pytest.mark.parametrize("table", mostly_slow(TABLES, *ONE_OF_EACH_PAPER), ids=lambda table: table.id)
def test_what_a_figure_needs_gives_a_number_in_its_place(table: PaperTable) -> None:
    """The plan reads the counterparts from the figure to the run; the report reads them from the run to the figure."""
    for planned in plan_cells(table, {cell.model: "tiny" for cell in table.cells}):
        if planned.need is not None and planned.status != "no":
            assert planned.cell.key() in _placed(table, planned, planned.need), planned


def _placed(table: PaperTable, planned: PlannedCell, need: Need) -> set[tuple[str, ...]]:
    """Keys of the figures that have a number of that run."""
    of = {"editor": need.editor, "settings": need.overrides}
    manifest = Manifest.model_construct(
        config=RunConfig(
            benchmark=paper(table.paper).benchmark,
            editors=(need.editor,),
            mode=need.mode,
            retriever=need.retriever or "default",
            benchmark_options=need.options,
        ),
        benchmark={"options": _defaults(table) | need.options},
        editors={need.setting: {need.editor: of}},
    )
    keys = set()
    for rule in rules(table.paper).metrics:
        of_file = rule.derived == "triples"
        editor = planned.cell.method.replace("LLM-based", "extract").replace("Tool-based", "extract")
        row = MetricRow(
            editor=_without(editor) if of_file else need.editor,
            setting=planned.cell.setting if of_file else need.setting,
            mode=str(rule.mode) if of_file else need.mode,
            metric=rule.metric, mean=1.0, n=1, unscored=0, low=None, high=None,
        )  # fmt: skip
        for place in places(table.paper, row, manifest):
            keys.add((planned.cell.model, place.method, *place.block))
    return keys


def _without(editor: str) -> str:
    return editor.replace("w/o TV", "without validation").replace("w/o SD", "without deduplication")


def _defaults(table: PaperTable) -> dict[str, Any]:
    from emend.evals.data.benchmarks.registry import BENCHMARKS

    benchmark: Any = BENCHMARKS.load(paper(table.paper).benchmark)
    return dict(benchmark.defaults)


@pytest.mark.parametrize("table", first_quick(TABLES, 4), ids=lambda table: table.id)
def test_a_recipe_has_each_run_once_and_every_figure_that_needs_one(table: PaperTable) -> None:
    models = {cell.model: "tiny" for cell in table.cells}
    names = {need.file for each in plan_cells(table, models) if (need := each.need)} - {""}
    files = {name: f"{name}.jsonl" for name in names}
    plain, planned = Recipe(table=table.id, judges=("openai:x",), triples=files), plan_cells(table, models)
    recipe = with_runs(plain, table, planned, {"limit": 3})
    assert len({run.name for run in recipe.runs}) == len(recipe.runs)
    held = {
        (run.config.mode, run.config.retriever, editor, setting)
        for run in recipe.runs
        for editor in run.config.editors
        for setting in run.config.settings
    }
    needs = [each.need for each in planned if each.need and each.status != "no"]
    assert held == {(need.mode, need.retriever or "default", need.editor, need.setting) for need in needs}


def test_table_2_of_akew_takes_fifteen_runs_of_a_model() -> None:
    table = next(table for table in TABLES if table.id == "akew:2")
    models = {cell.model: "tiny" for cell in table.cells}
    recipe = with_runs(Recipe(table="akew:2"), table, plan_cells(table, models), {})
    # Three data sets; one edit at a time with a paragraph or without, and all at once; IKE over paragraphs apart.
    assert len(recipe.runs) == 15
    apart = with_runs(Recipe(table="akew:2"), table, plan_cells(table, {}), {})
    assert len(apart.runs) == 45 and {run.config.model for run in apart.runs} >= {"hf:EleutherAI/gpt-j-6b"}


def test_editors_with_a_preset_have_runs_of_their_own() -> None:
    table = next(table for table in TABLES if table.id == "docter:2")
    planned = plan_cells(table, {"LLaMA2-7B": "tiny"}, [cell for cell in table.cells if cell.model == "LLaMA2-7B"])
    runs = with_runs(Recipe(table="docter:2"), table, planned, {"preset": "paper", "limit": 2}).runs
    retrievers = {run.config.editors: run.config.retriever for run in runs}
    assert retrievers[("ike",)] == "dense" and {*retrievers.values()} == {"dense", "default"}
    (ike,) = {run.config.overrides["ike"]["demonstrations"] for run in runs if run.config.editors == ("ike",)}
    assert ike == 32 and not any("ike" in run.config.editors[1:] for run in runs)


def test_full_fine_tuning_fits_in_bfloat16_in_a_run_of_its_own() -> None:
    table = next(table for table in TABLES if table.id == "elken:2")
    cells = [cell for cell in table.cells if cell.model == "Llama 3"]
    runs = with_runs(Recipe(table="elken:2"), table, plan_cells(table, {}, cells), {}).runs
    settings = {run.config.editors: run.config.overrides for run in runs}
    assert settings[("ft",)]["model"] == {"dtype": "bfloat16"} and settings[("ft",)]["ft"]["parameters"] == "all"
    assert all("model" not in values for editors, values in settings.items() if editors != ("ft",))


def test_rules_name_figures_that_exist_and_files_have_a_command() -> None:
    for each in papers():
        cells = [cell for table in each.tables for cell in table.cells]
        assert {cell.model for cell in cells} - {""} <= {*paper_models()}
        for rule in table_rules(each.name).rules:
            assert any(rule.applies(cell) for cell in cells), rule
            assert {*rule.cells} <= {*DIMENSIONS, "table"}
            assert bool(rule.file) == bool(rule.make)


def test_files_of_triplets_are_made_by_method_or_model_and_each_run_reads_its_own(tmp_path: Path) -> None:
    table = next(table for table in TABLES if table.id == "docter:2")
    planned = plan_cells(table, {"LLaMA2-7B": "tiny"})
    recipe = with_files(Recipe(table="docter:2"), planned, {"llm": "openai:x", "tool": "rules"}, tmp_path)
    made = {Path(file).name: fields for file, fields in recipe.extract.items()}
    llm = {"method": "llm", "model": "openai:x"}
    assert made == {"docter_tool_rules.jsonl": {"method": "rules"}, "docter_llm_openai-x.jsonl": llm}
    settings = {run.config.benchmark_options.get("triples"): run.config.settings
                for run in with_runs(recipe, table, planned, {}).runs}  # fmt: skip
    assert settings[recipe.triples["tool"]] == ("tool",) and settings[recipe.triples["llm"]] == ("llm",)
    kept = with_files(Recipe(table="docter:2", triples={"llm": "x.jsonl"}), planned, {"llm": "openai:x"}, tmp_path)
    assert (kept.triples, kept.extract) == ({"llm": "x.jsonl"}, {})
    with pytest.raises(BadSettings, match="did you mean 'tool'"):
        with_files(Recipe(table="docter:2"), planned, {"tol": "rules"}, tmp_path)


def test_a_model_in_the_place_of_another_lifts_what_is_said_of_that() -> None:
    table = next(table for table in TABLES if table.id == "docter:3")
    before = {each.status for each in plan_cells(table, {}) if each.cell.model == "ChatGPT"}
    after = [each for each in plan_cells(table, {"ChatGPT": "openai:new"}) if each.cell.model == "ChatGPT"]
    assert before == {"model"} and "model" not in {each.status for each in after}
    weights = [each for each in after if each.need and each.need.editor in ("ft", "memit")]
    assert all("weights" in each.reason for each in weights)


def test_memory_goes_by_editor_and_setting() -> None:
    small, large = gigabytes_needed(7, "rag", {}), gigabytes_needed(7, "ft", {"parameters": "all"})
    assert small < gigabytes_needed(7, "ft", {}) < large
