"""Runs of a recipe: shared, resumed, and not ended by one that fails."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.jobs.progress import Progress
from emend.evals.log.baseline import read_baseline
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.papers.reproduce.estimate import estimate
from emend.evals.papers.reproduce.execute import RecipeRunner, RunOutcome, outcome_of, with_runs_of
from emend.evals.papers.reproduce.recipe import Recipe, RecipeRun, grid_recipe
from emend.memory import registry
from emend.memory.errors import BadSettings, BudgetReached, ModelError
from tests.evals.made import record, write_run
from tests.evals.toy_runs import config, go
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel, enlist

KEEP = {"scorer": "agreement"}


@pytest.fixture(autouse=True)
def _scripted() -> None:
    enlist()


def run(recipe: Recipe, out: Path, lines: list[str] | None = None) -> list[RunOutcome]:
    say = (lines if lines is not None else []).append
    return RecipeRunner(recipe, out, Progress, say, lambda folder: nullcontext()).run()


def recipe_of(*configs: RunConfig) -> Recipe:
    return Recipe(runs=tuple(RecipeRun(config=each) for each in configs))


def tiny(**changed: Any) -> RunConfig:
    return config(model="tiny", limit=1, **changed)


def test_a_failed_run_does_not_end_the_others_and_is_tried_again(tmp_path: Path) -> None:
    broken = config(overrides={"model": {"fail_on": "Land0"}}, fail_on_error="true")
    recipe, lines = recipe_of(broken, config(limit=2)), list[str]()
    first, second = run(recipe, tmp_path, lines)
    assert "TooManyFailures" in first.error and not first.is_finished
    assert second.is_finished and not second.error
    before = (tmp_path / recipe.runs[1].name / "records.jsonl").read_bytes()
    assert run(recipe, tmp_path, lines)[1] == second and lines.count("  already finished") == 1
    assert (tmp_path / recipe.runs[1].name / "records.jsonl").read_bytes() == before


def test_a_part_of_a_finished_run_is_read_from_it(tmp_path: Path) -> None:
    whole = config(settings=("plain", "loud"), editors=(EDITOR, "unedited"), limit=2)
    recipe = recipe_of(whole)
    run(recipe, tmp_path)
    parts = recipe_of(*(config(settings=(name,), limit=2) for name in ("loud", "plain")), config(settings=("loud",)))
    parts = Recipe(runs=(parts.runs[0].model_copy(update={"judged_by": ("tendency",)}), *parts.runs[1:]))
    held = with_runs_of(tmp_path, parts).runs
    assert [each.config for each in held] == [whole, parts.runs[2].config]  # that without a limit is another one
    assert held[0].judged_by == ("tendency",)
    records = tmp_path / recipe.runs[0].name / "records.jsonl"
    records.write_text(records.read_text(encoding="utf-8").splitlines(keepends=True)[0], encoding="utf-8")
    assert with_runs_of(tmp_path, parts) == parts  # to finish it would take more than was asked for
    assert len(with_runs_of(tmp_path, parts, also_begun=True).runs) == 2


def test_a_run_in_the_folder_decides_neither_what_is_run_nor_how(tmp_path: Path) -> None:
    free = {"workers": "ray:elsewhere", "cache": "theirs", "memory_server": "http://127.0.0.1:9", "max_calls": 9}
    theirs = config(settings=("loud",), editors=(EDITOR, "evil:x"), **free, prices="theirs.toml", rpm=1.0)
    planned = config(settings=("loud",), max_calls=1, cache="ours")
    lines = [record("1", editor, setting="loud") for editor in theirs.editors]
    fields = theirs.model_dump(exclude={"benchmark", "editors", "model", "settings"})
    write_run(tmp_path / "zz", lines, BENCHMARK, model="scripted", **fields)
    assert with_runs_of(tmp_path, recipe_of(planned)) == recipe_of(planned)  # its folder would not be the run's
    write_run(tmp_path / RecipeRun(config=theirs).name, lines, BENCHMARK, model="scripted", **fields)
    held = with_runs_of(tmp_path, recipe_of(planned))
    assert held.runs[0].config == planned.model_copy(update={"editors": theirs.editors})
    said = list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_trusted", {BENCHMARK: False, EDITOR: False})
        assert run(held, tmp_path, said)[0].is_finished
        refused = estimate(held, [RunOutcome(folder=str(tmp_path / "none"))]).runs[0].error
    assert "  already finished" in said and "failed" not in "".join(said)
    assert "--trust evil:x" in refused


def test_a_run_does_not_serve_where_its_other_editor_has_not_the_settings_of_the_plan(tmp_path: Path) -> None:
    plain = {"benchmark": "akew", "model": "tiny", "mode": "single", "settings": ("struct",)}
    records = [record("1", editor=name, setting="struct", mode="single") for name in ("ft", "ike")]
    whole_run = RecipeRun(config=RunConfig.model_validate(plain | {"editors": ("ft", "ike")}))
    write_run(tmp_path / whole_run.name, records, "akew", model="tiny", mode="single")
    ft, ike = (RunConfig.model_validate(plain | {"editors": (name,)}) for name in ("ft", "ike"))
    as_published = ike.model_copy(update={"overrides": {"ike": {"demonstrations": 32}}})
    whole = with_runs_of(tmp_path, recipe_of(ft), also_begun=True).runs
    assert [each.config.editors for each in whole] == [("ft", "ike")]
    assert with_runs_of(tmp_path, recipe_of(ft, ike), also_begun=True).runs == whole
    # Its IKE would be shown in the place of the one with 32 demonstrations.
    plan = recipe_of(ft, as_published)
    assert with_runs_of(tmp_path, plan, also_begun=True) == plan


def test_a_damaged_run_is_a_failed_one(tmp_path: Path) -> None:
    recipe = recipe_of(config(limit=1), config(limit=2))
    (tmp_path / recipe.runs[0].name).mkdir()
    (tmp_path / recipe.runs[0].name / "manifest.json").write_text("{", encoding="utf-8")
    first, second = run(recipe, tmp_path)
    assert "manifest" in first.error and second.is_finished


def test_an_interrupted_run_is_continued(tmp_path: Path) -> None:
    recipe = recipe_of(config())
    folder = tmp_path / recipe.runs[0].name
    go(folder)
    whole = sorted(record.model_dump_json() for record in read_records(folder))
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:2]), encoding="utf-8")
    assert not outcome_of(folder).is_finished
    assert run(recipe, tmp_path)[0].is_finished
    assert len(whole) == len(list(read_records(folder)))


def test_runs_of_a_local_model_load_it_once_and_close_it(tmp_path: Path, monkeypatch: Any) -> None:
    import emend.evals.papers.reproduce.execute as module

    loaded: list[Any] = []

    def load(spec: str, **settings: Any) -> Any:
        loaded.append(ScriptedModel())
        return loaded[-1]

    closed: list[Any] = []
    monkeypatch.setattr(module, "load_model", load)
    monkeypatch.setattr(ScriptedModel, "close", lambda self: closed.append(self), raising=False)
    outcomes = run(recipe_of(tiny(), tiny(seed=1), tiny(overrides={"model": {"keep_mb": 1}})), tmp_path)
    assert all(each.is_finished for each in outcomes)
    assert len(loaded) == 2 and closed == loaded  # other settings, another model


@pytest.mark.slow
def test_limits_of_a_local_models_runs_are_the_judges(tmp_path: Path) -> None:
    recipe = recipe_of(tiny(max_calls=5))
    assert "makes no API calls" in run(recipe, tmp_path / "without")[0].error
    judged = recipe.model_copy(update={"judges": ("scripted:5",)})
    assert run(judged, tmp_path / "with")[0].is_finished


@pytest.mark.slow
def test_answers_of_the_unedited_model_are_not_asked_for_twice(tmp_path: Path) -> None:
    options = {"benchmark_options": KEEP, "editors": (EDITOR,)}
    first, second = tmp_path / "first", tmp_path / "second"
    model = ScriptedModel()
    from emend.evals.evaluate.run import run as run_to_folder

    asked = run_to_folder(config(**options), first, model=model).baseline_calls
    summary = run_to_folder(config(**options, seed=1), second, model=model, baselines=[first])
    assert asked > 0 and summary.baseline_calls == 0
    lines = [{answer.key: answer for _, answer in read_baseline(folder)} for folder in (first, second)]
    assert lines[0] == lines[1]  # the second folder stands on its own
    other = run_to_folder(config(**options, repeats=2), tmp_path / "third", model=model, baselines=[first])
    assert other.baseline_calls == asked  # those of the second repeat


@pytest.mark.slow
def test_what_a_judge_must_read_is_judged_once(tmp_path: Path, monkeypatch: Any) -> None:
    from emend.agents.llm import MODELS
    from tests.evals.judged_runs import elken_run

    monkeypatch.setitem(MODELS.builtin, "scripted", ("tests.evals.judged_runs:load_judge", "for tests"))
    folder = elken_run(tmp_path / "run")
    each = RecipeRun(config=Manifest.read(folder).config, judged_by=("tendency", "agreement"))
    folder.rename(tmp_path / each.name)
    recipe, lines = Recipe(runs=(each,), judges=("scripted:5",)), list[str]()
    assert not run(recipe, tmp_path, lines)[0].error and not run(recipe, tmp_path, lines)[0].error
    first, second = [line for line in lines if "judged" in line]
    assert " 0 new" not in first and second.startswith("  judged: 0 new judgements")
    unjudged = recipe.model_copy(update={"judges": ()})
    assert run(unjudged, tmp_path, lines)[0].is_finished and len(lines) == 8


def test_all_runs_together_have_one_budget(tmp_path: Path, monkeypatch: Any) -> None:
    import emend.evals.papers.reproduce.execute as module
    from emend.agents.providers.usage import ProviderUsage

    seen: list[Any] = []

    def spend(config: RunConfig, folder: Path, *rest: Any, **more: Any) -> Any:
        seen.append((config.max_cost, config.max_calls))
        if len(seen) == 3:
            raise BudgetReached("all of it")
        manifest = Manifest.read(write_run(folder, []))
        manifest.model_copy(update={"spent": {"m": ProviderUsage(requests=4, cost=0.75)}}).write(folder)
        if len(seen) == 2:
            raise ModelError("paid for nothing")

    monkeypatch.setattr(module, "run", spend)
    with pytest.raises(BudgetReached):
        run(recipe_of(*(config(seed=seed, max_cost=2.0, max_calls=10) for seed in range(4))), tmp_path)
    assert seen == [(2.0, 10), (1.25, 6), (0.5, 2)]


@pytest.mark.slow
def test_triplets_that_a_run_reads_are_extracted_first_and_kept(tmp_path: Path) -> None:
    file = str(tmp_path / "triples" / "t.jsonl")
    fields = {"benchmark": "tinyworld", "settings": ("extract",), "benchmark_options": {"triples": file}, "limit": 2}
    recipe = recipe_of(config(**fields, embedding="lexical"), config(**fields, embedding="lexical", seed=1))
    recipe = recipe.model_copy(update={"extract": {file: {"method": "rules", "validation": "subject"}}})
    before = estimate(recipe, [RunOutcome(folder="") for _ in recipe.runs])
    assert before.documents == {file: 2} and not any(each.error for each in before.runs) and before.is_paid
    lines = list[str]()
    assert all(each.is_finished for each in run(recipe, tmp_path, lines))
    assert sum("2 documents" in line for line in lines) == 2  # those of the other seed are added to the file
    rows = Path(file).read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4 and all('"method":"rules"' in row for row in rows)
    run(recipe, tmp_path / "again", lines)
    assert lines[-1].endswith("; 2 of these existed before")


def test_a_grid_is_all_combinations(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"model": ["tiny", "hf:x"], "rag.k": [1, 3], "benchmark.cases": ["2"], "mode": ["all"]}
    recipe = grid_recipe({"benchmark": BENCHMARK, "editors": ["rag"]}, {"seed": 7}, axes)
    assert [(run.config.model, run.config.overrides["rag"]["k"]) for run in recipe.runs] == [
        ("tiny", 1), ("tiny", 3), ("hf:x", 1), ("hf:x", 3),
    ]  # fmt: skip
    assert {(run.config.seed, run.config.mode, run.config.benchmark_options["cases"]) for run in recipe.runs} == {
        (7, "all", "2")
    }
    recipe.write(tmp_path / "grid.yaml")
    assert Recipe.read(tmp_path / "grid.yaml", {}) == recipe
    changed = Recipe.read(tmp_path / "grid.yaml", {"limit": 2, "overrides": {"rag": {"k": 9}}})
    assert {(run.config.limit, run.config.overrides["rag"]["k"]) for run in changed.runs} == {(2, 9)}
    with pytest.raises(BadSettings, match="more than 1000 runs"):
        grid_recipe({"benchmark": BENCHMARK, "editors": ["rag"]}, {}, {"seed": list(range(1001))})


@pytest.mark.parametrize(
    "text",
    ["runs: 3", "runs: []", "runs: [x]", "runs: [{colour: red}]", "a: &a b\nruns: [*a]", "runs: [{}]\nmodels: 1"],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(BadSettings, match=r"r\.yaml|--editor|--benchmark"):
        Recipe.read(tmp_path / "r.yaml", {})


def test_a_run_is_named_by_what_decides_its_records() -> None:
    plain = RecipeRun(config=config(settings=("plain",), mode="all"))
    assert plain.name == RecipeRun(config=config(settings=("plain",), mode="all", workers="threads")).name
    assert plain.name != RecipeRun(config=config(settings=("plain",), mode="all", limit=9)).name
    assert plain.name.startswith("scripted_all_plain_") and "/" not in plain.name
    assert "/" not in RecipeRun(config=config(model="hf:../a b/../c")).name
