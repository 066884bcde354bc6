"""Recipes: the runs of a published table or of a grid, as a YAML file that one can read and edit, and their choice."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from emend.agents.weight_differences import difference_remedy
from emend.evals.config.presets import PRESET, find_preset
from emend.evals.config.run_config import MODEL, RESUMABLE_FIELDS, RunConfig
from emend.evals.config.run_file import RunPlan, parse_yaml, typed_fields
from emend.evals.data.benchmarks.triples import OPTION
from emend.evals.results.papers.tables import DIMENSIONS, Cell, PaperTable, paper, paper_models, table, table_rules
from emend.evals.results.reproduce.needs import (
    LLM,
    METHOD,
    TOOL,
    Need,
    PlannedCell,
    extract_option,
    join,
    judge_option,
    plan_cells,
)
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

RECIPE = "recipe.yaml"
JUDGED_BY = "judged_by"
MAX_RUNS = 1_000
SHORT = 12


class RecipeRun(FrozenModel):
    """A run: its configuration, and the names of the judges that read its answers."""

    config: RunConfig
    judged_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run's folder: what the run is in short, and a digest of what decides its records."""
        config = self.config
        parts = [config.model, *config.benchmark_options.values(), config.mode or "", *config.settings]
        plain = "_".join(re.sub(r"[^\w.]+", "-", Path(part).name).strip("-.")[:SHORT] for part in parts if part)
        # Defaults are left out, so that the folder of a run does not change its name with a new option of Emend.
        decisive = config.model_dump(mode="json", exclude={*RESUMABLE_FIELDS}, exclude_defaults=True)
        return f"{plain[:80]}_{content_id('run of a recipe', decisive)[:8]}"


class Recipe(FrozenModel):
    """Runs of a published table, or of a grid where `table` is empty.

    `models` has a model for each of the paper's, `only` the figures that are wanted, `triples` files of extracted
    triplets by name, `extract` the options of `emend extract` for those files that are to be made, `judges` the chat
    models that judge, `preset` the set-up of those editors that have one.
    """

    table: str = ""
    preset: str = ""
    models: dict[str, str] = {}
    only: dict[str, str] = {}
    triples: dict[str, str] = {}
    extract: dict[str, dict[str, Any]] = {}
    judges: tuple[str, ...] = ()
    runs: tuple[RecipeRun, ...] = ()

    def write(self, path: Path) -> None:
        """Write a file that `read` reads.

        Raises:
            BadSettings: it cannot be written.
        """
        import yaml

        dumps = [run.config.model_dump(mode="json", exclude_defaults=True) for run in self.runs]
        runs = [{MODEL: run.config.model} | fields for run, fields in zip(self.runs, dumps, strict=True)]
        first = runs[0] if runs else {}
        common = {key: value for key, value in first.items() if all(run.get(key, ...) == value for run in runs)}
        rows = [
            {key: value for key, value in fields.items() if key not in common}
            | ({JUDGED_BY: list(run.judged_by)} if run.judged_by else {})
            for fields, run in zip(runs, self.runs, strict=True)
        ]
        fields = self.model_dump(mode="json", exclude_defaults=True, exclude={"runs"})
        text = yaml.safe_dump(fields | {"common": common, "runs": rows}, sort_keys=False, allow_unicode=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(hide_keys(text), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise BadSettings(f"cannot write '{path}': {error}. Name another place.") from error

    @classmethod
    def read(cls, path: Path, changes: Mapping[str, Any]) -> Self:
        """Read a recipe; `changes` are fields of all its runs.

        Raises:
            MissingData: there is no such file.
            BadSettings: it is no recipe, or a field is unknown or impossible.
        """
        fields = parse_yaml(path)
        rows, common = fields.pop("runs", None), fields.pop("common", None) or {}
        if not isinstance(rows, list) or not rows or len(rows) > MAX_RUNS or not isinstance(common, dict):
            raise BadSettings(f"'{path}' is no recipe: it has no list 'runs' of 1 to {MAX_RUNS} runs.")
        runs = tuple(_read_run(common, row, path, changes) for row in rows)
        try:
            return cls.model_validate(fields | {"runs": runs})
        except ValidationError as error:
            first = error.errors()[0]
            raise BadSettings(f"'{path}', field '{first['loc'][0]}': {first['msg']}.") from error


def _read_run(common: Mapping[str, Any], row: Any, path: Path, changes: Mapping[str, Any]) -> RecipeRun:
    if not isinstance(row, dict):
        raise BadSettings(f"'{path}': a run is '{str(row)[:40]}': write fields such as 'mode: all'.")
    judged_by = row.pop(JUDGED_BY, ())
    configs = RunPlan.of(typed_fields({**common, **row}, path), changes).configs
    if len(configs) != 1:
        raise BadSettings(f"'{path}': a run has {len(configs)} models: write a run for each.")
    return RecipeRun(config=configs[0], judged_by=tuple(map(str, judged_by)))


def with_runs(recipe: Recipe, table: PaperTable, planned: Sequence[PlannedCell], common: Mapping[str, Any]) -> Recipe:
    """The recipe with the runs that the figures of its table need; `common` are fields of all runs.

    Raises:
        BadSettings: a field of a run is impossible.
        MissingData: a file of the preset is absent.
    """
    groups: dict[str, list[tuple[PlannedCell, Need]]] = {}
    joined, set_up = table_rules(table.paper).joined, find_preset(common[PRESET]) if PRESET in common else {}
    for each, need in ((each, each.need) for each in planned if each.need and not lacking(each, recipe)):
        options = {key: value for key, value in need.options.items() if key not in joined}
        apart = need.editor if need.editor in set_up else ""  # as it has options of the run
        key = repr((each.model, need.mode, need.retriever, options, need.run, need.file, apart))
        groups.setdefault(key, []).append((each, need))
    runs = [run for group in groups.values() for run in _runs(table, recipe, group, common)]
    names = [MODEL, *dict.fromkeys(editor for run in runs for editor in run.config.editors)]
    if unknown := [name for name in common.get("overrides", {}) if runs and name not in names]:
        raise BadSettings(f"--set names the editor '{unknown[0]}', which is in no run: {nearest(unknown[0], names)}")
    ordered = tuple(sorted(runs, key=lambda run: run.config.model))
    return recipe.model_copy(update={"runs": ordered, PRESET: common.get(PRESET, "")})


def lacking(planned: PlannedCell, recipe: Recipe) -> str:
    """Return why a figure is not in a run: it has no model, or something was not given; empty where it is in one."""
    need, name = planned.need, planned.cell.model
    if not planned.model and planned.status == "own":
        hub = paper_models()[name].hub
        return f"{hub} {difference_remedy(hub)}: --model '{name}=hf:FOLDER'"
    if not planned.model and planned.status == "model":
        return f"{planned.reason}: --model '{name}=openai:NAME'"
    if not planned.model or planned.status == "no":
        return planned.reason
    if need is not None and not recipe.judges and (option := judge_option(need)):
        return option
    return extract_option(need) if need is not None and need.file not in recipe.triples else ""


def with_files(recipe: Recipe, planned: Sequence[PlannedCell], methods: Mapping[str, str], folder: Path) -> Recipe:
    """The recipe with files of triplets to be made in a folder, by `methods`: a model for `llm`, a method for `tool`.

    Raises:
        BadSettings: there are no such triplets.
    """
    if unknown := [kind for kind in methods if kind not in (LLM, TOOL)]:
        raise BadSettings(f"--extract {unknown[0]}: {nearest(unknown[0], [LLM, TOOL])}")
    triples, extract = dict(recipe.triples), dict[str, dict[str, Any]]()
    needs = [each.need for each in planned if each.need and each.need.file]
    if methods and not needs:
        raise BadSettings(f"--extract: no figure of {recipe.table} that is wanted needs triplets: leave it out.")
    for need in needs:
        kind = LLM if need.make[METHOD] == LLM else TOOL
        if kind in methods and need.file not in recipe.triples:
            suffix = re.sub(r"[^\w.]+", "-", methods[kind])
            triples[need.file] = str(folder / f"{recipe.table.partition(':')[0]}_{need.file}_{suffix}.jsonl")
            chosen = {MODEL: methods[kind]} if kind == LLM else {METHOD: methods[kind]}
            extract[triples[need.file]] = need.make | chosen
    return recipe.model_copy(update={"triples": triples, "extract": extract})


def _runs(
    table: PaperTable, recipe: Recipe, group: Sequence[tuple[PlannedCell, Need]], common: Mapping[str, Any]
) -> Iterator[RecipeRun]:
    """Yield runs in which each editor has exactly the settings that it is needed in, in as few runs as that takes."""
    (planned, first), needs = group[0], [need for _, need in group]
    options = dict(first.options)
    for key in table_rules(table.paper).joined:
        options |= {key: join(*(need.options.get(key, "") for need in needs))}
    options |= {OPTION: recipe.triples[first.file]} if first.file else {}
    fields = {"benchmark": paper(table.paper).benchmark, MODEL: planned.model, "mode": first.mode, **first.run}
    fields |= {"benchmark_options": {key: value for key, value in options.items() if value}}
    fields |= {"retriever": first.retriever} if first.retriever else {}
    judged_by = tuple(dict.fromkeys(need.judge for need in needs if need.judge))
    for settings, editors in _products(needs):
        overrides = fields.get("overrides", {}) | {editor: values for editor, values in editors.items() if values}
        of_run = {"editors": list(editors), "settings": settings, "overrides": overrides}
        yield RecipeRun(config=_configured(fields | of_run, common), judged_by=judged_by)


def _products(needs: Sequence[Need]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield settings and, by editor, the overrides of runs that hold each pair of the needs once and no other."""
    settings: dict[str, dict[str, None]] = {}
    for need in needs:
        settings.setdefault(repr((need.editor, need.overrides)), {})[need.setting] = None
    batches: list[tuple[dict[str, None], dict[str, Any]]] = []
    for key, need in {repr((need.editor, need.overrides)): need for need in needs}.items():
        fitting = (each for at, each in batches if at == settings[key] and need.editor not in each)
        editors = next(fitting, None)
        if editors is None:
            editors = {}
            batches.append((settings[key], editors))
        editors[need.editor] = need.overrides
    return (([*at], editors) for at, editors in batches)


def _configured(file: dict[str, Any], common: Mapping[str, Any]) -> RunConfig:
    """Make the configuration of a run; a preset and settings of editors that it does not have are left out of it."""
    editors, changes = file["editors"], {key: value for key, value in common.items() if key != "overrides"}
    if PRESET in changes and not {*find_preset(changes[PRESET])} & {*editors}:
        changes.pop(PRESET)
    overrides = {name: of for name, of in common.get("overrides", {}).items() if name in (*editors, MODEL)}
    return RunPlan.of(file, changes | {"overrides": overrides}).configs[0]


def grid_recipe(file: Mapping[str, Any], options: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> Recipe:
    """Make the recipe of a grid: a run for each combination of the axes' values.

    Args:
        file: fields of a configuration.
        options: fields that come before these.
        axes: values by the name of a field, of an option of the benchmark (`benchmark.KEY`) or of an editor's setting
            (`EDITOR.KEY`).

    Raises:
        BadSettings: a field is unknown or impossible, or there are too many runs.
    """
    configs: dict[str, RunConfig] = {}
    for values in product(*axes.values()):
        changes = dict(options)
        for name, value in zip(axes, values, strict=True):
            _set(changes, name, value)
        for config in RunPlan.of(file, changes).configs:
            configs.setdefault(repr(config), config)
        if len(configs) > MAX_RUNS:
            raise BadSettings(f"the grid has more than {MAX_RUNS} runs: give fewer values.")
    return Recipe(runs=tuple(RecipeRun(config=config) for config in configs.values()))


def _set(changes: dict[str, Any], name: str, value: Any) -> None:
    """Set a field of a configuration, an option of the benchmark, or a setting of an editor."""
    part, dot, key = name.rpartition(".")
    if not dot:
        kind = typed_fields({name: value}, Path("--over"))
        changes |= {MODEL: (value,)} if name == MODEL else kind
    elif part == "benchmark":
        changes["benchmark_options"] = {**changes.get("benchmark_options", {}), key: str(value)}
    else:
        overrides = changes.get("overrides", {})
        changes["overrides"] = {**overrides, part: {**overrides.get(part, {}), key: value}}


def plan_recipe(recipe: Recipe) -> tuple[PaperTable, list[PlannedCell]]:
    """The table of a recipe and its figures, those that the recipe's `only` names.

    Raises:
        BadSettings: there is no such table, dimension or value.
    """
    published = table(recipe.table)
    return published, plan_cells(published, recipe.models, _choose_cells(published, recipe.only))


def choose_models(published: PaperTable, arguments: Sequence[str]) -> dict[str, str]:
    """The model for each of the table's: `NAME=MODEL` for one, `MODEL` for all that are not named.

    Raises:
        BadSettings: no paper has a model of that name.
    """
    models, default = dict[str, str](), ""
    for argument in arguments:
        name, equals, spec = argument.partition("=")
        if equals and name in paper_models():
            models[name] = spec
        elif equals and not any(sign in name for sign in ":/"):
            raise BadSettings(f"--model '{argument}': {nearest(name, list(paper_models()))}")
        else:
            default = argument
    names = dict.fromkeys(cell.model for cell in published.cells) if default else ()
    return dict.fromkeys(names, default) | models


def _choose_cells(published: PaperTable, only: Mapping[str, str]) -> list[Cell]:
    """The figures that are all of `only`; upper and lower case are alike.

    Raises:
        BadSettings: there is no such dimension, or no figure with such a value.
    """
    chosen = list(published.cells)
    for key, text in only.items():
        if key not in DIMENSIONS:
            raise BadSettings(f"--only {key}: {nearest(key, list(DIMENSIONS))}")
        values = text.split(",")
        names = list(dict.fromkeys(getattr(cell, key) for cell in published.cells))
        if unknown := [value for value in values if not any(_names(value, name) for name in names)]:
            raise BadSettings(f"--only {key}={unknown[0]}: {published.id} has {', '.join(names)}.")
        chosen = [cell for cell in chosen if any(_names(value, getattr(cell, key)) for value in values)]
    if not chosen:
        raise BadSettings(f"no figure of {published.id} is all of --only at once: name less.")
    return chosen


def _names(value: str, name: str) -> bool:
    """Return whether a word is a name, or what stands before its bracket."""
    return value.strip().lower() in (name.lower(), name.lower().partition(" (")[0])
