"""Configuration files of runs: what is read, what comes first, and what is refused."""

from pathlib import Path

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.config.run_file import RunPlan, read_run_file
from emend.memory.errors import BadSettings, EmendError, MissingData

FILE = """
benchmark: mquake
editors: [rag, ft]
settings: triplet
models: [tiny, "openai:gpt@http://127.0.0.1:1/v1"]
benchmark_options: {hops: 3, strict: yes}
overrides:
  rag: {k: 2, threshold: 0.5}
  ft: {num_steps: 5}
fail_on_error: 0.2
limit: 40
seed:
out: runs/x
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run.yaml").write_text(FILE)
    return tmp_path / "run.yaml"


def test_a_file_says_what_options_say(path: Path) -> None:
    plan = RunPlan.of(read_run_file(path), {})
    assert [config.model for config in plan.configs] == ["tiny", "openai:gpt@http://127.0.0.1:1/v1"]
    assert plan.configs[0] == RunConfig(
        benchmark="mquake",
        editors=("rag", "ft"),
        settings=("triplet",),
        benchmark_options={"hops": "3", "strict": "true"},
        overrides={"rag": {"k": 2, "threshold": 0.5}, "ft": {"num_steps": 5}},
        fail_on_error="0.2",
        limit=40,
    )
    assert [folder.as_posix() for _, folder in plan.runs(Path("new"))] == [
        "runs/x/tiny",
        "runs/x/openai-gpt-http-127.0.0.1-1-v1",
    ]


def test_what_is_given_comes_first_and_settings_are_merged(path: Path) -> None:
    given = {
        "editors": ("rag",),
        "model": ("tiny",),
        "limit": 3,
        "overrides": {"rag": {"k": 4}},
        "benchmark_options": {"hops": "2"},
    }
    (config,) = RunPlan.of(read_run_file(path), given).configs
    assert (config.model, config.editors, config.limit, config.fail_on_error) == ("tiny", ("rag",), 3, "0.2")
    assert config.overrides == {"rag": {"k": 4, "threshold": 0.5}}
    assert config.benchmark_options == {"hops": "2", "strict": "true"}
    runs = RunPlan.of(read_run_file(path), given, Path("y")).runs(Path("new"))
    assert [folder for _, folder in runs] == [Path("y")]


def test_a_written_plan_is_read_as_the_same(path: Path, tmp_path: Path) -> None:
    plan = RunPlan.of(read_run_file(path), {"mode": "sequential", "reevaluate_at": "2,end"})
    plan.write(tmp_path / "again.yaml")
    assert RunPlan.of(read_run_file(tmp_path / "again.yaml"), {}) == plan


def test_checkpoints_that_follow_from_the_mode_are_not_written(tmp_path: Path) -> None:
    fields = {"benchmark": "tinyworld", "editors": ["rag"], "model": "tiny"}
    (tmp_path / "x.yaml").write_text(RunPlan.of(fields | {"mode": "sequential"}, {}).text())
    written = read_run_file(tmp_path / "x.yaml")
    assert RunPlan.of(written, {}).configs[0].reevaluate_at == "end"
    assert RunPlan.of(written, {"mode": "all"}).configs[0].mode == "all"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("benchmark: mquake\nlimits: 3", "field 'limits', which is unknown: .*limit"),
        ("benchmark: mquake", "--editor is missing"),
        ("editors: [rag]", "--benchmark is missing"),
        ("benchmark: mquake\neditors: rag\nlimit: many", "'limit' is many"),
        ("benchmark: mquake\neditors: rag\noverrides: {rag: 3}", "field 'overrides'"),
        ("benchmark: mquake\neditors: rag\noverrides: {model: {api_key: sk-secret-word}}", "may contain a key"),
        ("benchmark: mquake\nmodel: tiny\nmodels: [tiny]", "leave one out"),
        ("- benchmark", "not a configuration of a run"),
        ("benchmark: [", "not valid YAML"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: " + "[" * 100_000, "nested more than 200 levels"),
        ("!!python/object/apply:os.system [true]", "not valid YAML"),
        ("#" * 2**20 + "\n", "not a configuration of a run"),
    ],
)
def test_odd_files_are_refused(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(BadSettings, match=match) as caught:
        RunPlan.of(read_run_file(tmp_path / "run.yaml"), {})
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "problem"), [("none.yaml", "configuration file .*does not exist"), (".", "cannot be read")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises((MissingData, EmendError), match=problem):
        read_run_file(tmp_path / name)
