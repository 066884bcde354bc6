"""Recipes: YAML files with the runs of a published table or of a grid."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from emend.agents.weight_differences import difference_remedy
from emend.evals.config.overrides import MODEL
from emend.evals.config.presets import PRESET, find_preset
from emend.evals.config.run_config import RESUMABLE_FIELDS, RunConfig
from emend.evals.config.run_file import RunPlan, parse_yaml, typed_fields
from emend.evals.data.benchmarks.triples import OPTION
from emend.evals.papers.reproduce.needs import (
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
from emend.evals.papers.tables import (
    DIMENSIONS,
    Cell,
    PaperTable,
    paper,
    paper_models,
    table,
    table_rules,
)
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings, problem_of
from emend.memory.files import write_export
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

RECIPE = "recipe.yaml"
JUDGED_BY = "judged_by"
MAX_RUNS = 1_000
# Maximum length of a model or data set in the name of a run's folder.
SHORT = 12


class RecipeRun(FrozenModel):
    """A run of a recipe: its configuration, and the names of the judges of its answers."""

    config: RunConfig
    judged_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run's folder: main options, and a digest of all that affect records."""
        config = self.config
        parts = [
            config.model,
            *config.benchmark_options.values(),
            config.mode or "",
            *config.settings,
        ]
        plain = "_".join(
            re.sub(r"[^\w.]+", "-", Path(part).name).strip("-.")[:SHORT] for part in parts if part
        )
        # Defaults are left out, so that a new option of Emend does not change the folder names of
        # existing runs.
        decisive = config.model_dump(
            mode="json", exclude={*RESUMABLE_FIELDS}, exclude_defaults=True
        )
        return f"{plain[:80]}_{content_id('run of a recipe', decisive)[:8]}"


class Recipe(FrozenModel):
    """Runs of a published table, or of a grid if `table` is empty.

    `models` maps the paper's models to those of the runs, `only` selects figures, and `triples`
    maps names to files of extracted triplets. `extract` has the `emend extract` options for files
    still to be made. `judges` are chat models, and `preset` names a set-up of editors.
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
        """Write the recipe as a YAML file for `read`.

        Raises:
            BadSettings: the file cannot be written.
        """
        import yaml

        dumps = [run.config.model_dump(mode="json", exclude_defaults=True) for run in self.runs]
        runs = [
            {MODEL: run.config.model} | fields for run, fields in zip(self.runs, dumps, strict=True)
        ]
        common = _common_fields(runs)
        rows = []
        for fields, run in zip(runs, self.runs, strict=True):
            row = {key: value for key, value in fields.items() if key not in common}
            if run.judged_by:
                row[JUDGED_BY] = list(run.judged_by)
            rows.append(row)
        fields = self.model_dump(mode="json", exclude_defaults=True, exclude={"runs"})
        text = yaml.safe_dump(
            fields | {"common": common, "runs": rows}, sort_keys=False, allow_unicode=True
        )
        write_export(path, hide_keys(text), parents=True)

    @classmethod
    def read(cls, path: Path, changes: Mapping[str, Any]) -> Self:
        """Read a recipe file; `changes` override fields of all its runs.

        Raises:
            MissingData: there is no such file.
            BadSettings: the file is not a recipe, or a field is unknown or impossible.
        """
        fields = parse_yaml(path)
        rows, common = fields.pop("runs", None), fields.pop("common", None) or {}
        if (
            not isinstance(rows, list)
            or not rows
            or len(rows) > MAX_RUNS
            or not isinstance(common, dict)
        ):
            raise BadSettings(
                f"'{path}' is not a recipe: it has no list 'runs' of 1 to {MAX_RUNS} runs."
            )
        runs = tuple(_read_run(common, row, path, changes) for row in rows)
        try:
            return cls.model_validate(fields | {"runs": runs})
        except ValidationError as error:
            first = error.errors()[0]
            raise BadSettings(
                f"'{path}', field '{first['loc'][0]}': {problem_of(first)}."
            ) from error


def _read_run(
    common: Mapping[str, Any], row: Any, path: Path, changes: Mapping[str, Any]
) -> RecipeRun:
    if not isinstance(row, dict):
        raise BadSettings(
            f"'{path}': a run is '{str(row)[:40]}': write fields such as 'mode: all'."
        )
    judged_by = row.pop(JUDGED_BY, ())
    configs = RunPlan.of(typed_fields({**common, **row}, path), changes).configs
    if len(configs) != 1:
        raise BadSettings(f"'{path}': a run has {len(configs)} models: write a run for each.")
    return RecipeRun(config=configs[0], judged_by=tuple(map(str, judged_by)))


def with_runs(
    recipe: Recipe, table: PaperTable, planned: Sequence[PlannedCell], common: Mapping[str, Any]
) -> Recipe:
    """Return the recipe with the runs that the table's figures need.

    `common` are fields that all runs get.

    Raises:
        BadSettings: a field of a run is impossible.
        MissingData: a file of the preset is absent.
    """
    groups: dict[str, list[tuple[PlannedCell, Need]]] = {}
    joined = table_rules(table.paper).joined
    set_up: Collection[str] = ()
    if PRESET in common:
        set_up = find_preset(common[PRESET])
    for plan in planned:
        need = plan.need
        if need is None or lacking(plan, recipe):
            continue
        options = {key: value for key, value in need.options.items() if key not in joined}
        # A preset contains options of the run, so each of its editors gets its own run.
        apart = ""
        if need.editor in set_up:
            apart = need.editor
        key = repr((plan.model, need.mode, need.retriever, options, need.run, need.file, apart))
        groups.setdefault(key, []).append((plan, need))
    runs = [run for group in groups.values() for run in _runs(table, recipe, group, common)]
    names = [MODEL, *dict.fromkeys(editor for run in runs for editor in run.config.editors)]
    if unknown := [name for name in common.get("overrides", {}) if runs and name not in names]:
        raise BadSettings(
            f"--set names the editor '{unknown[0]}', which is in no run: "
            f"{nearest(unknown[0], names)}"
        )
    ordered = tuple(sorted(runs, key=lambda run: run.config.model))
    return recipe.model_copy(update={"runs": ordered, PRESET: common.get(PRESET, "")})


def lacking(planned: PlannedCell, recipe: Recipe) -> str:
    """Return why no run gives a figure, such as a missing model or option; empty if one does."""
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
    if need is not None and need.file not in recipe.triples:
        return extract_option(need)
    return ""


def with_files(
    recipe: Recipe, planned: Sequence[PlannedCell], methods: Mapping[str, str], folder: Path
) -> Recipe:
    """Return the recipe with files of triplets to make in a folder.

    `methods` maps `llm` to a model, and `tool` to an extraction method.

    Raises:
        BadSettings: a method has an unknown name, or no figure needs triplets.
    """
    if unknown := [kind for kind in methods if kind not in (LLM, TOOL)]:
        raise BadSettings(f"--extract {unknown[0]}: {nearest(unknown[0], [LLM, TOOL])}")
    triples, extract = dict(recipe.triples), dict[str, dict[str, Any]]()
    needs = [each.need for each in planned if each.need and each.need.file]
    if methods and not needs:
        raise BadSettings(
            f"--extract: no selected figure of {recipe.table} needs triplets: leave it out."
        )
    for need in needs:
        if need.make[METHOD] == LLM:
            kind = LLM
        else:
            kind = TOOL
        if kind in methods and need.file not in recipe.triples:
            suffix = re.sub(r"[^\w.]+", "-", methods[kind])
            triples[need.file] = str(
                folder / f"{recipe.table.partition(':')[0]}_{need.file}_{suffix}.jsonl"
            )
            if kind == LLM:
                chosen = {MODEL: methods[kind]}
            else:
                chosen = {METHOD: methods[kind]}
            extract[triples[need.file]] = need.make | chosen
    return recipe.model_copy(update={"triples": triples, "extract": extract})


def _runs(
    table: PaperTable,
    recipe: Recipe,
    group: Sequence[tuple[PlannedCell, Need]],
    common: Mapping[str, Any],
) -> Iterator[RecipeRun]:
    """Yield the fewest runs in which each editor has exactly the settings needed of it."""
    (planned, first), needs = group[0], [need for _, need in group]
    options = dict(first.options)
    for key in table_rules(table.paper).joined:
        options |= {key: join(*(need.options.get(key, "") for need in needs))}
    if first.file:
        options[OPTION] = recipe.triples[first.file]
    fields = {
        "benchmark": paper(table.paper).benchmark,
        MODEL: planned.model,
        "mode": first.mode,
        **first.run,
    }
    fields["benchmark_options"] = {key: value for key, value in options.items() if value}
    if first.retriever:
        fields["retriever"] = first.retriever
    judged_by = tuple(dict.fromkeys(need.judge for need in needs if need.judge))
    for settings, editors in _products(needs):
        overrides = fields.get("overrides", {}) | {
            editor: values for editor, values in editors.items() if values
        }
        of_run = {"editors": list(editors), "settings": settings, "overrides": overrides}
        yield RecipeRun(config=_configured(fields | of_run, common), judged_by=judged_by)


def _products(needs: Sequence[Need]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield settings and overrides by editor, such that each needed pair occurs exactly once."""
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
    """Return a run's configuration, without the preset and overrides of editors that it lacks."""
    editors, changes = (
        file["editors"],
        {key: value for key, value in common.items() if key != "overrides"},
    )
    if PRESET in changes and not {*find_preset(changes[PRESET])} & {*editors}:
        changes.pop(PRESET)
    overrides = {
        name: of for name, of in common.get("overrides", {}).items() if name in (*editors, MODEL)
    }
    return RunPlan.of(file, changes | {"overrides": overrides}).configs[0]


def grid_recipe(
    file: Mapping[str, Any], options: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]
) -> Recipe:
    """Make the recipe of a grid, with a run for each combination of the axes' values.

    Args:
        file: fields of a configuration file.
        options: fields that override those of the file.
        axes: values by name of a field, of a benchmark option (`benchmark.KEY`) or of an editor's
            setting (`EDITOR.KEY`).

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
    """Set a configuration field, a benchmark option or an editor's setting."""
    part, dot, key = name.rpartition(".")
    if not dot and name == MODEL:
        changes[MODEL] = (value,)
    elif not dot:
        changes |= typed_fields({name: value}, Path("--over"))
    elif part == "benchmark":
        changes["benchmark_options"] = {**changes.get("benchmark_options", {}), key: str(value)}
    else:
        overrides = changes.get("overrides", {})
        changes["overrides"] = {**overrides, part: {**overrides.get(part, {}), key: value}}


def plan_recipe(recipe: Recipe) -> tuple[PaperTable, list[PlannedCell]]:
    """Return the table of a recipe, with the plans of the figures that `only` selects.

    Raises:
        BadSettings: there is no such table, dimension or value.
    """
    published = table(recipe.table)
    return published, plan_cells(published, recipe.models, _choose_cells(published, recipe.only))


def choose_models(published: PaperTable, arguments: Sequence[str]) -> dict[str, str]:
    """Return the chosen model for each of the paper's models.

    `NAME=MODEL` sets the model for one of them, `MODEL` for all others.

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
    if not default:
        return models
    return dict.fromkeys((cell.model for cell in published.cells), default) | models


def _choose_cells(published: PaperTable, only: Mapping[str, str]) -> list[Cell]:
    """Return the figures that match all of `only`, ignoring case.

    Raises:
        BadSettings: there is no such dimension, or no figure with such a value.
    """
    chosen = list(published.cells)
    for key, text in only.items():
        if key not in DIMENSIONS:
            raise BadSettings(f"--only {key}: {nearest(key, list(DIMENSIONS))}")
        values = text.split(",")
        names = list(dict.fromkeys(getattr(cell, key) for cell in published.cells))
        if unknown := [value for value in values if not _names_any(value, names)]:
            has = f"{published.id} has {', '.join(names)}"
            if "=" in text:
                has += "; commas separate values, so repeat --only for another dimension"
            raise BadSettings(f"--only {key}={unknown[0]}: {has}.")
        named = {name for name in names for value in values if _names(value, name)}
        chosen = [cell for cell in chosen if getattr(cell, key) in named]
    if not chosen:
        raise BadSettings(f"no figure of {published.id} matches all of --only: select less.")
    return chosen


def _names_any(value: str, names: Iterable[str]) -> bool:
    """Return True if the word is one of the names."""
    return any(_names(value, name) for name in names)


def _common_fields(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields with the same value in all runs."""
    if not runs:
        return {}
    common = dict(runs[0])
    for run in runs[1:]:
        common = {name: value for name, value in common.items() if run.get(name, ...) == value}
    return common


def _names(value: str, name: str) -> bool:
    """Return True if the word equals the name, with or without its bracketed suffix."""
    return value.strip().lower() in (name.lower(), name.lower().partition(" (")[0])
