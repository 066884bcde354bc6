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
from emend.evals.cli.panels import SUBJECTS, in_panels
from emend.evals.config.presets import PRESET
from emend.evals.config.run_config import RunConfig
from emend.evals.papers.commands.published import show_published
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_typed

if TYPE_CHECKING:
    from rich.console import Console

    from emend.evals.papers.reproduce.execute import RunOutcome
    from emend.evals.papers.reproduce.recipe import Recipe


# Run options that a published table determines.
OF_THE_PAPER = (
    "benchmark",
    "editors",
    "model",
    "settings",
    "mode",
    "reevaluate_at",
    "share",
    "retriever",
)
# Default preset of the runs of a published table.
PAPER_PRESET = "paper"
COMMON = tuple(name for name in RunConfig.model_fields if name not in OF_THE_PAPER)


class TableRunChoice(FrozenModel):
    """Selection of a table's figures, and the models to use."""

    models: tuple[str, ...] = Field(
        default=(),
        description="Replacement for all models of the paper, or for one, as in 'GPT-J "
        "(6B)=hf:FOLDER'; repeatable; default: the paper's models from the Hugging Face Hub.",
    )
    judges: tuple[str, ...] = Field(
        default=(), description="Chat model that judges; repeatable; default: none."
    )
    only: dict[str, str] = Field(
        default={},
        description="Run only figures of this model, method, data, setting or metric; values "
        "separated by commas; repeatable.",
    )
    extract: dict[str, str] = Field(
        default={},
        description="Extract DocTER's triplets once with llm=MODEL or tool=rules, and store them "
        "next to the run folders; repeatable.",
    )
    triples: dict[str, str] = Field(
        default={},
        description="File of triplets for the name that the plan uses for it (tool, llm); "
        "repeatable.",
    )


class SeveralRuns(FrozenModel):
    """Options that start and show the runs of a plan."""

    run_folders: Path | None = Field(
        default=None, description="Parent folder of the run folders; default: runs/NAME."
    )
    save_recipe: Path | None = Field(default=None, description="Write the plan to this YAML file.")
    dry_run: bool = Field(
        default=False, description="Print the plan: units, calls, tokens, cost, memory and time."
    )
    yes: bool = Field(default=False, description="Start without asking for confirmation.")
    report: bool = Field(
        default=False, description="Print the table of finished runs, and run nothing."
    )
    format: str | None = Field(
        default=None, description="Print the table as csv, markdown or latex."
    )


class FigureOutput(FrozenModel):
    """Options that show other content instead of the table."""

    published: bool = Field(
        default=False,
        description="Print the published table, or the tables of a paper, and run nothing.",
    )
    list: bool = Field(
        default=False,
        description="List which published figures can be reproduced, and why others cannot.",
    )
    cells: bool = Field(default=False, description="Print the figures one by one.")
    as_json: bool = Field(
        default=False, description='Print one JSON object, {"rows": ...}, and nothing else.'
    )


@in_panels(
    "models",
    "only",
    "judges",
    "limit",
    "run_folders",
    "dry_run",
    "yes",
    "report",
    "published",
    "list",
    "cells",
    "format",
    "as_json",
    subjects={**SUBJECTS, "More: triplets": ("extract", "triples")},
)
@grouped
def reproduce(
    choice: TableRunChoice,
    runs: SeveralRuns,
    output: FigureOutput,
    options: Annotated[dict[str, Any], OptionalFields(RunConfig, COMMON, defaults=True)],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE|RECIPE",
            help="Table, such as akew:2, or a YAML file with a plan; default: list the tables.",
        ),
    ] = None,
) -> None:
    """List the published tables, or reproduce one: plan its runs, share common results, and print
    each figure next to the published one.

    Begin with a part: emend reproduce akew:2 --model tiny --limit 20 --only "method=IKE (single)"
    takes about a minute, the whole table much longer; each run's time is estimated at the start.

    Editors with a preset `paper` use it, unless --preset selects another. Repeat the command to
    continue: finished runs are read, failed and interrupted ones are continued.
    """
    from emend.evals.papers.show.export import FORMS
    from emend.evals.show.report.export import check_form

    exclusive({"--list": output.list, "--published": output.published, "--report": runs.report})
    if output.list:
        _show_list(name, output)
        return
    if name is None and (options or choice != TableRunChoice() or runs != SeveralRuns()):
        raise BadSettings("no table is given: name one, such as akew:2; see: emend reproduce")
    if output.published or name is None:
        show_published(name, output.as_json)
        return
    exclusive({"--format": runs.format, "--json": output.as_json, "--cells": output.cells})
    if runs.format is not None:
        check_form(runs.format, FORMS)
    recipe = _recipe(name, choice, options, runs)
    outcomes = _run(recipe, runs)
    if outcomes is not None:
        _print_table(recipe, outcomes, runs.format, output)


@in_panels(
    "over",
    "benchmark",
    "editors",
    "model",
    "settings",
    "limit",
    "protocols",
    "overrides",
    "run_folders",
    "dry_run",
    "yes",
    "report",
)
@grouped
def sweep(
    options: Annotated[
        dict[str, Any],
        OptionalFields(RunConfig, tuple(RunConfig.model_fields), lists=("model",), defaults=True),
    ],
    runs: SeveralRuns,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG|RECIPE", help="YAML file with options of a run, or with a plan of runs."
        ),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Field of a run (mode, retriever, seed), option of the benchmark (benchmark.KEY) "
            "or setting of an editor (rag.k), and its values; all combinations are run; "
            "repeatable.",
        ),
    ] = None,
) -> None:
    """Run all combinations of models, settings and options, share common results, and print one
    table.

    Repeat the command to continue: finished runs are read, failed and interrupted ones are
    continued.
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


def _recipe(
    name: str, choice: TableRunChoice, options: Mapping[str, Any], runs: SeveralRuns
) -> "Recipe":
    from emend.evals.config.run_file import parse_yaml
    from emend.evals.papers.reproduce.execute import with_runs_of
    from emend.evals.papers.reproduce.recipe import (
        Recipe,
        choose_models,
        plan_recipe,
        with_files,
        with_runs,
    )
    from emend.evals.papers.tables import table

    if Path(name).suffix in (".yaml", ".yml"):
        flags = {"models": "--model", "judges": "--judge"}
        if changed := [flags.get(key, f"--{key}") for key, value in choice if value]:
            raise BadSettings(
                f"{', '.join(changed)} with a recipe: change the file, or name a table."
            )
        trust_typed(parse_yaml(Path(name)))
        return Recipe.read(Path(name), options)
    models = choose_models(table(name), choice.models)
    recipe = Recipe(
        table=name, models=models, only=choice.only, triples=choice.triples, judges=choice.judges
    )
    published, planned = plan_recipe(recipe)
    recipe = with_files(recipe, planned, choice.extract, _folder(recipe, runs).parent / "triples")
    recipe = with_runs(recipe, published, planned, {PRESET: PAPER_PRESET} | dict(options))
    return with_runs_of(_folder(recipe, runs), recipe, also_begun=runs.report)


def _folder(recipe: "Recipe", runs: SeveralRuns) -> Path:
    return runs.run_folders or Path("runs") / (recipe.table.replace(":", "-") or "sweep")


def _grid(file: Path | None, options: Mapping[str, Any], over: Sequence[str]) -> "Recipe":
    from emend.evals.config.run_file import parse_yaml, read_run_file
    from emend.evals.papers.reproduce.recipe import Recipe, grid_recipe

    base: dict[str, Any] = {}
    if file is not None:
        fields = parse_yaml(file)
        trust_typed(fields)
        if "runs" in fields:
            if over:
                raise BadSettings("--over with a recipe: change the file, or name a configuration.")
            return Recipe.read(file, options)
        base = read_run_file(file)
    axes = {}
    for key, value in parse_pairs(over, "--over").items():
        axes[key] = [parse_value(text) for text in value.split(",")]
    return grid_recipe(base, options, axes)


def _run(recipe: "Recipe", runs: SeveralRuns) -> "Sequence[RunOutcome] | None":
    """Print what is to be run, and run it; None after a dry run."""
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.papers.reproduce.execute import RecipeRunner, outcome_of
    from emend.evals.papers.reproduce.recipe import RECIPE
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
    """Print the estimate, and ask whether to start.

    Without a terminal, runs that call a provider need --yes.

    Raises:
        BadSettings: nothing can be run, or a provider would be called and there is no terminal to
            ask in.
    """
    from emend.evals.papers.reproduce.estimate import estimate
    from emend.evals.papers.show.estimate import render_estimate
    from emend.evals.show.report.layout import console_for

    estimated = estimate(recipe, outcomes)
    console_for(sys.stdout if runs.dry_run else sys.stderr).print(render_estimate(estimated))
    if estimated.runs and all(each.error for each in estimated.runs):
        raise BadSettings(f"nothing can be run: {estimated.runs[0].error}")
    if runs.dry_run:
        return False
    if runs.yes or not any(each.left for each in estimated.runs):
        return True
    if sys.stdin.isatty():
        return typer.confirm("Start?", default=True, err=True)
    if estimated.is_paid:
        raise BadSettings("these runs call a provider: give --yes to start without a question.")
    return True


def _print_table(
    recipe: "Recipe", outcomes: "Sequence[RunOutcome]", form: str | None, output: FigureOutput
) -> None:
    from emend.evals.papers.reproduce.collect import figures
    from emend.evals.papers.reproduce.recipe import plan_recipe
    from emend.evals.papers.show.export import export, rows
    from emend.evals.papers.show.figures import render_cells, render_figures

    published, planned = plan_recipe(recipe)
    listed = figures(published, planned, recipe, outcomes)
    if form is not None:
        print_text(export(published, listed, form))
    else:

        def show(console: "Console") -> None:
            if output.cells:
                console.print(render_cells(listed))
            else:
                console.print(render_figures(published, listed, console))

        emit(rows(listed), output.as_json, show)
    _fail_if_unfinished(outcomes)


def _fail_if_unfinished(outcomes: "Sequence[RunOutcome]") -> None:
    """Exit with code 1 if a run failed; the same command tries it again."""
    if failed := [each for each in outcomes if each.error]:
        print_text(
            f"{len(failed)} of {len(outcomes)} runs are unfinished; repeat the command to "
            "continue.",
            err=True,
        )
        raise typer.Exit(1)


def _show_list(name: str | None, output: FigureOutput) -> None:
    """Print how many figures of each table can be run, with reasons for others, or list them."""
    from emend.evals.papers.reproduce.collect import figures
    from emend.evals.papers.reproduce.needs import coverage_rows, plan_cells
    from emend.evals.papers.reproduce.recipe import Recipe
    from emend.evals.papers.show.coverage import render_coverage
    from emend.evals.papers.show.export import rows
    from emend.evals.papers.show.figures import render_cells
    from emend.evals.papers.tables import paper, papers, table

    if not name:
        tables = [each for source in papers() for each in source.tables]
    elif ":" in name:
        tables = [table(name)]
    else:
        tables = [*paper(name).tables]
    if output.cells:
        listed = []
        for published in tables:
            planned = plan_cells(published, {})
            listed += figures(published, planned, Recipe(table=published.id), [])
        emit(rows(listed), output.as_json, lambda console: console.print(render_cells(listed)))
        return
    counted = coverage_rows(tables)
    emit(counted, output.as_json, lambda console: console.print(render_coverage(counted)))
