"""`emend reproduce` and `emend sweep` on the command line."""

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.evals.command_line import caller, python
from tests.evals.judged_runs import verdict
from tests.evals.toy_runs import go
from tests.evals.toys import BENCHMARK, EDITOR, enlist
from tests.paths import DATA
from tests.provider.server import Provider

RECALL = (
    *("reproduce", "akew:2", "--model", "tiny", "--limit", "1"),
    *("--only", "method=IKE", "--only", "data=MQuAKE-CF", "--only", "setting=struct"),
)


@pytest.fixture
def emend(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> Any:
    monkeypatch.setenv("EMEND_DATA", str(DATA))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    enlist()
    return caller(monkeypatch, capsys)


@pytest.mark.slow
def test_a_table_is_run_and_shown_and_read_again(emend: Any, tmp_path: Path) -> None:
    words = (*RECALL, "--preset", "best")  # 32 demonstrations are more than the embedded model reads
    first = emend(*words)
    assert first.code == 0, first.err
    assert "6 of 6 figures have a number" in first.out and "82.80" in first.out
    assert "2 runs, 2 units to do, " in first.err and "a rough estimate" in first.err
    again = emend("reproduce", "runs/akew-2/recipe.yaml")
    assert again.out == first.out and again.err.count("already finished") == 2
    shown = emend(*words, "--report", "--json")
    rows = shown.rows
    assert {row["mean"] is None for row in rows} == {False} and len(rows) == 6
    assert "run 1 of" not in shown.err
    assert emend(*words, "--report", "--format", "latex").out.startswith(r"\begin{table}")


def test_a_published_table_is_run_as_published_unless_another_preset_is_named(emend: Any, tmp_path: Path) -> None:
    shown = {}
    for preset in ("paper", "best"):
        words = () if preset == "paper" else ("--preset", preset)
        output = emend(*RECALL, "--report", "--save-recipe", f"{preset}.yaml", *words)
        assert output.code == 0 and f"preset: {preset}, for IKE (single), IKE (all)" in output.out
        shown[preset] = (tmp_path / f"{preset}.yaml").read_text(encoding="utf-8")
    assert "demonstrations: 32" in shown["paper"] and "demonstrations: 6" in shown["best"]
    assert emend(*RECALL, "--report", "--preset", "papr").code == 2


@pytest.mark.slow
@pytest.mark.usefixtures("keys")
def test_the_limits_of_this_call_hold_over_those_of_the_run(emend: Any, tmp_path: Path) -> None:
    only = ("--only", "model=Llama 3", "--only", "method=SERAC")
    words = ("reproduce", "elken:2", "--model", "tiny", "--limit", "2", *only, "--data", DATA / "elken", "--yes")
    with Provider(lambda asked: verdict(asked.prompt)) as provider:  # three answers, and a verdict of each judge
        judges = [word for name in "abcd" for word in ("--judge", provider.spec("chat", name))]
        for limit, calls in (("3", 3), ("1", 4)):
            output = emend(*words, *judges, "--concurrency", "1", "--max-calls", limit)
            assert provider.count == calls and f"--max-calls {limit}" in output.err, output.err
        assert "values of this command are used: max_calls 1 (stored: 3)" in output.err
        (manifest,) = (tmp_path / "runs" / "elken-2").glob("*/manifest.json")
        stored = json.loads(manifest.read_text(encoding="utf-8"))
        manifest.write_text(json.dumps(stored | {"config": stored["config"] | {"max_calls": None}}), encoding="utf-8")
        emend(*words, *judges, "--concurrency", "1", "--max-calls", "1")
        assert provider.count == 5


@pytest.mark.slow
def test_a_plan_is_shown_written_and_edited(emend: Any, tmp_path: Path) -> None:
    plan = emend(*RECALL, "--preset", "best", "--dry-run", "--save-recipe", "plan.yaml")
    assert "about 1 s" in plan.out, "each run has its time, so that the expensive ones are seen"
    assert plan.code == 0 and "calls" in plan.out and not (tmp_path / "runs").exists()
    text = Path("plan.yaml").read_text(encoding="utf-8")
    Path("plan.yaml").write_text(text.replace("- mode: single\n", ""), encoding="utf-8")
    run = emend("reproduce", "plan.yaml", "--seed", "1")
    assert "3 of 6 figures have a number" in run.out and "no run of the recipe gives it" in run.out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--dry-run",), "no table is given"),
        (("akew:9",), "no table 'akew:9'"),
        (("akew:2", "--only", "methods=IKE"), "did you mean"),
        (("akew:2", "--only", "method=MELO"), "akew:2 has FT, LoRA"),
        (("akew:2", "--only", "method=ROME", "--only", "setting=unstruct"), "no figure of akew:2"),
        (("akew:2", "--model", "GPT-X=tiny"), "GPT2-XL"),
        (("plan.yaml", "--model", "tiny"), "--model with a recipe"),
        (("akew:2", "--model", "tiny", "--set", "mello.k=1"), "which is in no run"),
        (("akew:2", "--model", "tiny", "--data", "nowhere"), "nothing can be run: "),
        (("akew:2", "--model", "tiny", "--data", "nowhere", "--dry-run"), "nothing can be run: "),
        (("akew:2", "--json", "--cells"), "do not go together"),
        (("--list", "papers:1"), "unknown paper"),
        (("akew:2", "--model", "tiny", "--format", "latexx"), "did you mean 'latex'"),
        (("akew:2", "--model", "nonsense", "--limit", "1"), "nothing can be run: unknown model"),
        (("akew:2", "--extract", "tool=rules"), "needs triplets: leave it out"),
        (("akew:2", "--only", "MEMIT"), "--only method=MEMIT"),
        (("akew:2", "--only", "method=MEMIT,setting=struct"), "repeat --only for another dimension"),
    ],
)
def test_what_cannot_be_meant_is_refused(emend: Any, words: tuple[str, ...], error: str) -> None:
    output = emend("reproduce", *words)
    assert output.code == 2 and error in output.err, output.err


def test_providers_are_not_called_without_a_word(emend: Any) -> None:
    output = emend("sweep", "--benchmark", BENCHMARK, "--editor", EDITOR, "--model", "openai:x", "--limit", "1")
    assert output.code == 2 and "--yes" in output.err


def test_the_ledger_is_listed(emend: Any) -> None:
    rows = emend("reproduce", "--list", "--json").rows
    assert sum(row["figures"] for row in rows) == 1_494
    assert "figures can be reproduced" in emend("reproduce", "docter", "--list").out
    cells = emend("reproduce", "docter:5", "--list", "--cells", "--json").rows
    assert len(cells) == 54 and {row["status"] for row in cells} == {"no", "model"}


@pytest.mark.slow
def test_a_grid_ends_in_one_table(emend: Any) -> None:
    words = (
        "sweep",
        "--benchmark",
        BENCHMARK,
        "--editor",
        EDITOR,
        "--model",
        "scripted",
        "--over",
        "mode=single,all",
        "--yes",
    )
    output = emend(*words, "--over", "benchmark.cases=1,2")
    assert output.code == 0, output.err
    assert "run 4 of 4" in output.err and output.out.count("100.0") >= 4
    assert emend(*words, "--over", "benchmark.cases=1,2", "--report", "--format", "csv").out.startswith("benchmark,")
    assert emend(*words, "--over", "nothing=1").code == 2
    assert emend("sweep", "runs/sweep/recipe.yaml", "--over", "seed=1").code == 2


def test_an_interrupted_grid_names_the_command_that_continues_all_of_it(
    emend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import emend.evals.papers.reproduce.execute as module

    def interrupted(*arguments: Any, **more: Any) -> None:
        go(arguments[1])
        raise KeyboardInterrupt

    words = ("sweep", "--benchmark", BENCHMARK, "--editor", EDITOR, "--model", "scripted", "--yes")
    with monkeypatch.context() as patched:
        patched.setattr(module, "run", interrupted)
        output = emend(*words)
    assert output.code == 130 and output.err.endswith("Continue with the same command.\n")
    assert "already finished" in emend(*words).err


TABLES = {
    "akew:2": ("--only", "method=IKE", "--only", "data=MQuAKE-CF", "--only", "setting=struct,extract", "--limit", "2"),
    "recoe:4": ("--only", "model=Tulu 7B", "--only", "method=InputAug", "--only", "setting=direct", "--limit", "3"),
}  # fmt: skip


CHILD = """
import sys
from contextlib import nullcontext
from pathlib import Path
from emend.evals.papers.reproduce.execute import RecipeRunner
from emend.evals.papers.reproduce.recipe import Recipe
from emend.evals.jobs.progress import Progress
RecipeRunner(Recipe.read(Path("plan.yaml"), {}), Path("killed"), Progress, print, lambda folder: nullcontext()).run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_killed_at_random_moments_and_continued_gives_the_same_table(name: str, emend: Any, tmp_path: Path) -> None:
    plan = emend("reproduce", name, "--model", "tiny", *TABLES[name], "--save-recipe", "plan.yaml", "--out", "whole")
    lacks_a_file = int(name == "recoe:4")  # superlative's: that run fails, and ends no other
    assert plan.code == lacks_a_file, plan.err
    whole, draw = _written(tmp_path / "whole"), random.Random(name)
    for kill in range(3):
        process = python(CHILD)
        target = whole * draw.uniform(kill, kill + 1) / 4
        end = time.monotonic() + 120
        while process.poll() is None and _written(tmp_path / "killed") < target and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert emend("reproduce", "plan.yaml", "--out", "killed").code == lacks_a_file
    tables = [emend("reproduce", "plan.yaml", "--out", out, "--report", "--json").rows for out in ("whole", "killed")]
    assert tables[0] == tables[1] and all(row["mean"] is not None or row["reason"] for row in tables[0])
    assert any(row["n"] for row in tables[0])


def _written(folder: Path) -> int:
    """Bytes of the records of all runs."""
    return sum(path.stat().st_size for path in folder.glob("*/records.jsonl"))
