"""The commands `emend reproduce` and `emend sweep`."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from emend.evals.cli.options import OptionalFields, exclusive, grouped, parse_pairs, parse_value
from emend.evals.cli.output import emit, print_rich, print_text
from emend.evals.config.presets import PRESET
from emend.evals.config.run_config import RunConfig
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_typed

if TYPE_CHECKING:
    from rich.console import Console

    from emend.evals.results.reproduce.execute import RunOutcome
    from emend.evals.results.reproduce.recipe import Recipe


OF_THE_PAPER = ("benchmark", "editors", "model", "settings", "mode", "reevaluate_at", "share", "retriever")
"""Options of a run that a published table decides."""
PAPER_PRESET = "paper"
"""Preset of the runs of a published table, unless another is named."""
COMMON = tuple(name for name in RunConfig.model_fields if name not in OF_THE_PAPER)


class TableRunChoice(FrozenModel):
    """The figures of a table that are wanted, and with which models."""

    models: tuple[str, ...] = Field(
        default=(),
        description="Model in the place of all of the paper's, or of one, as in 'GPT-J (6B)=hf:FOLDER'; repeatable; "
        "default: the papers' from the Hugging Face hub.",
    )
    judges: tuple[str, ...] = Field(default=(), description="Chat model that judges; repeatable; default: none.")
    only: dict[str, str] = Field(
        default={},
        description="Figures of this model, method, data, setting or metric; values with commas; repeatable.",
    )
    extract: dict[str, str] = Field(
        default={},
        description="Make DocTER's triplets by llm=MODEL, tool=spacy or tool=rules, once, and keep them beside the run "
        "folders; repeatable.",
    )
    triples: dict[str, str] = Field(
        default={}, description="File of triplets, by the name that the plan has for it (tool, llm); repeatable."
    )


class SeveralRuns(FrozenModel):
    """How the runs of a plan are started and shown."""

    run_folders: Path | None = Field(default=None, description="Folder of the run folders; default: runs/NAME.")
    save_recipe: Path | None = Field(default=None, description="Write the plan into this YAML file.")
    dry_run: bool = Field(default=False, description="Print the plan: units, calls, tokens, cost, memory and time.")
    yes: bool = Field(default=False, description="Start without a question.")
    report: bool = Field(default=False, description="Print the table of what was run before, and run nothing.")
    format: str | None = Field(default=None, description="Print the table as csv, markdown or latex.")


class FigureOutput(FrozenModel):
    """Other content in the place of the table."""

    list: bool = Field(default=False, description="List which published figures can be run, and why others cannot.")
    cells: bool = Field(default=False, description="Print the figures one by one.")
    as_json: bool = Field(default=False, description='Print one JSON object, {"rows": ...}, and nothing else.')


@grouped
def reproduce(
    choice: TableRunChoice,
    runs: SeveralRuns,
    output: FigureOutput,
    options: Annotated[dict[str, Any], OptionalFields(RunConfig, COMMON, defaults=True)],
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE|RECIPE", help="Table, such as akew:2, or a YAML file with a plan.")
    ] = None,
) -> None:
    """Run a published table: plan its runs, share what they share, and print each figure beside the published one.

    Editors that have a preset `paper` are set up as published, unless --preset names another. The same command
    continues: finished runs are read, failed and interrupted ones are continued.
    """
    from emend.evals.show.report.export import check_form
    from emend.evals.show.report.reproduce import FORMS

    if output.list:
        _show_list(name, output)
        return
    exclusive({"--format": runs.format, "--json": output.as_json, "--cells": output.cells})
    if name is None:
        raise BadSettings("no table is named: give one, such as akew:2; see: emend reproduce --list")
    if runs.format is not None:
        check_form(runs.format, FORMS)
    recipe = _recipe(name, choice, options, runs)
    outcomes = _run(recipe, runs)
    if outcomes is not None:
        _print_table(recipe, outcomes, runs.format, output)


@grouped
def sweep(
    options: Annotated[
        dict[str, Any], OptionalFields(RunConfig, tuple(RunConfig.model_fields), lists=("model",), defaults=True)
    ],
    runs: SeveralRuns,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG|RECIPE", help="YAML file with options of a run, or with a plan of runs."),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Field of a run (mode, retriever, seed), option of the benchmark (benchmark.KEY) or setting of an "
            "editor (rag.k), and its values; the runs are all combinations; repeatable.",
        ),
    ] = None,
) -> None:
    """Run all combinations of models, settings and options, share what they share, and print one table.

    The same command continues: finished runs are read, failed and interrupted ones are continued.
    """
    from emend.evals.results.aggregate.tables import load_reports
    from emend.evals.show.report.export import check_form, export
    from emend.evals.show.report.metrics import render_reports

    if runs.format is not None:
        check_form(runs.format)
    outcomes = _run(_grid(file, options, over or ()), runs) or ()
    folders = [Path(each.folder) for each in outcomes if each.units]
    if folders and runs.format is not None:
        print_text(export(load_reports(folders), runs.format))
    elif folders:
        print_rich(lambda console: console.print(render_reports(load_reports(folders), console)))
    _fail_if_unfinished(outcomes)


def _recipe(name: str, choice: TableRunChoice, options: Mapping[str, Any], runs: SeveralRuns) -> "Recipe":
    from emend.evals.config.run_file import parse_yaml
    from emend.evals.results.papers.tables import table
    from emend.evals.results.reproduce.execute import with_runs_of
    from emend.evals.results.reproduce.recipe import Recipe, choose_models, plan_recipe, with_files, with_runs

    if Path(name).suffix in (".yaml", ".yml"):
        flags = {"models": "--model", "judges": "--judge"}
        if changed := [flags.get(key, f"--{key}") for key, value in choice if value]:
            raise BadSettings(f"{', '.join(changed)} with a recipe: change the file, or name a table.")
        trust_typed(parse_yaml(Path(name)))
        return Recipe.read(Path(name), options)
    models = choose_models(table(name), choice.models)
    recipe = Recipe(table=name, models=models, only=choice.only, triples=choice.triples, judges=choice.judges)
    published, planned = plan_recipe(recipe)
    recipe = with_files(recipe, planned, choice.extract, _folder(recipe, runs).parent / "triples")
    recipe = with_runs(recipe, published, planned, {PRESET: PAPER_PRESET} | dict(options))
    return with_runs_of(_folder(recipe, runs), recipe, also_begun=runs.report)


def _folder(recipe: "Recipe", runs: SeveralRuns) -> Path:
    return runs.run_folders or Path("runs") / (recipe.table.replace(":", "-") or "sweep")


def _grid(file: Path | None, options: Mapping[str, Any], over: Sequence[str]) -> "Recipe":
    from emend.evals.config.run_file import parse_yaml, read_run_file
    from emend.evals.results.reproduce.recipe import Recipe, grid_recipe

    fields = parse_yaml(file) if file is not None else {}
    trust_typed(fields)
    if file is not None and "runs" in fields:
        if over:
            raise BadSettings("--over with a recipe: change the file, or name a configuration.")
        return Recipe.read(file, options)
    axes = {key: [parse_value(text) for text in value.split(",")] for key, value in parse_pairs(over, "--over").items()}
    return grid_recipe(read_run_file(file) if file is not None else {}, options, axes)


def _run(recipe: "Recipe", runs: SeveralRuns) -> "Sequence[RunOutcome] | None":
    """Say what is to be run, and run it; None after a dry run."""
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.results.reproduce.execute import RecipeRunner, outcome_of
    from emend.evals.results.reproduce.recipe import RECIPE
    from emend.evals.show.report.progress import progress_on

    folder = _folder(recipe, runs)
    outcomes = [outcome_of(folder / each.name) for each in recipe.runs]
    if runs.save_recipe is not None:
        recipe.write(runs.save_recipe)
    if runs.report or (not recipe.runs and not runs.dry_run):
        return outcomes
    if not _is_wanted(recipe, outcomes, runs):
        return None
    recipe.write(folder / RECIPE)
    guard = partial(interruptible, command="the same command")
    return RecipeRunner(recipe, folder, progress_on, partial(print_text, err=True), guard).run()


def _is_wanted(recipe: "Recipe", outcomes: "Sequence[RunOutcome]", runs: SeveralRuns) -> bool:
    """Print the estimate, and ask whether to start: always where a provider would be called.

    Raises:
        BadSettings: nothing can be run; or a provider would be called, and there is nobody to ask.
    """
    from emend.evals.results.reproduce.execute import estimate
    from emend.evals.show.report.layout import console_for
    from emend.evals.show.report.reproduce import render_estimate

    estimated = estimate(recipe, outcomes)
    console_for(sys.stdout if runs.dry_run else sys.stderr).print(render_estimate(estimated))
    if runs.dry_run:
        return False
    if all(each.error for each in estimated.runs):
        raise BadSettings(f"nothing can be run: {estimated.runs[0].error}")
    if runs.yes or not any(each.left for each in estimated.runs):
        return True
    if sys.stdin.isatty():
        return typer.confirm("Start?", default=True, err=True)
    if estimated.is_paid:
        raise BadSettings("these runs call a provider: give --yes to start without a question.")
    return True


def _print_table(recipe: "Recipe", outcomes: "Sequence[RunOutcome]", form: str | None, output: FigureOutput) -> None:
    from emend.evals.results.reproduce.collect import figures
    from emend.evals.results.reproduce.recipe import plan_recipe
    from emend.evals.show.report.reproduce import export, render_cells, render_figures, rows

    published, planned = plan_recipe(recipe)
    listed = figures(published, planned, recipe, outcomes)
    if form is not None:
        print_text(export(published, listed, form))
    else:

        def show(console: "Console") -> None:
            console.print(render_cells(listed) if output.cells else render_figures(published, listed, console))

        emit(rows(listed), output.as_json, show)
    _fail_if_unfinished(outcomes)


def _fail_if_unfinished(outcomes: "Sequence[RunOutcome]") -> None:
    """End with exit code 1 if a run failed; it is tried again by the same command."""
    if failed := [each for each in outcomes if each.error]:
        print_text(f"{len(failed)} of {len(outcomes)} runs are not finished; the same command continues.", err=True)
        raise typer.Exit(1)


def _show_list(name: str | None, output: FigureOutput) -> None:
    """Print how many figures of each table can be run, and why the others cannot; or the figures one by one."""
    from emend.evals.results.papers.tables import paper, papers, table
    from emend.evals.results.reproduce.collect import figures
    from emend.evals.results.reproduce.needs import coverage_rows, plan_cells
    from emend.evals.results.reproduce.recipe import Recipe
    from emend.evals.show.report.reproduce import render_cells, render_coverage, rows

    single = [table(name)] if name and ":" in name else []
    tables = single or [each for source in ([paper(name)] if name else papers()) for each in source.tables]
    if output.cells:
        listed = [each for t in tables for each in figures(t, plan_cells(t, {}), Recipe(table=t.id), [])]
        emit(rows(listed), output.as_json, lambda console: console.print(render_cells(listed)))
        return
    counted = coverage_rows(tables)
    emit(counted, output.as_json, lambda console: console.print(render_coverage(counted)))
