"""A scoring goes on by `emend resume`, as other jobs do, and asks for no call that was answered."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from emend.evals.judging.judgement import JudgementKey
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import SCORING, Scoring
from emend.evals.judging.scorings.search import list_scorings
from emend.memory.files import replace_file
from tests.evals import command_line
from tests.evals.judged_runs import verdict
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
pytestmark = pytest.mark.usefixtures("own_cache")
START = "from emend.evals.cli.main import run_command_line; run_command_line()"


@pytest.fixture
def emend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    return command_line.caller(monkeypatch, capsys)


def judge(provider: Provider, run: Path, *words: str) -> list[str]:
    spec = provider.spec("chat", "judge")
    kinds = ("--kind", "tendency", "--kind", "agreement", "--no-batch")
    return ["judge", "run", str(run), "--judge", spec, *kinds, "--concurrency", "1", *words]


def scoring_folder(run: Path) -> Path:
    (scoring,) = list_scorings(run)
    return scoring.folder(run)


def keys(run: Path) -> list[JudgementKey]:
    (scoring,) = list_scorings(run)
    return sorted(judgement.key for judgement in read_judgements(run, scoring))


def change(folder: Path, **fields: Any) -> None:
    """Change fields of a scoring, as whoever gives the folder away can."""
    Scoring.read(folder).model_copy(update=fields).write(folder)


@pytest.fixture
def run(elken: Path) -> Path:
    return elken


def test_what_a_budget_left_is_asked_by_resume_and_nothing_twice(run: Path, emend: Any) -> None:
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        stopped = emend(*judge(provider, run, "--max-calls", "1"))
        folder = scoring_folder(run)
        assert stopped.code and f"emend resume {folder}" in stopped.err
        assert provider.count == len(keys(run)) == 1
        resumed = emend("resume", folder, "--max-calls", "9")
        assert resumed.code == 0, resumed.err
        assert f"Next: emend report {run} --scoring {folder.name}" in resumed.out
        asked = provider.count
        assert emend(*judge(provider, run)).code == 0
        assert emend("resume", folder).code == 0
        assert provider.count == asked == len(set(keys(run))) == len(keys(run))


def test_a_failed_call_is_tried_again_and_the_error_names_the_command(run: Path, emend: Any) -> None:
    with Provider(lambda asked: verdict(asked.prompt), faults=["404"] * 9) as provider:
        failed = emend(*judge(provider, run, "--fail-on-error", "true"))
        folder = scoring_folder(run)
        assert failed.code and f"emend resume {folder}" in failed.err
        provider.faults.clear()
        assert emend("resume", folder).code == 0 and keys(run)


def test_options_that_decide_nothing_of_judges_are_refused(run: Path, emend: Any) -> None:
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        assert emend(*judge(provider, run)).code == 0
        asked = provider.count
        for words in (("--workers", "processes:2"), ("--memory", "http://127.0.0.1:9")):
            output = emend("resume", scoring_folder(run), *words)
            assert output.code == 2 and words[0].split("-")[2] in output.err
        assert provider.count == asked


def test_what_a_strangers_scoring_names_needs_trust(run: Path, emend: Any, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text('open("PWNED", "w").write("")\ndef x(*words, **more): ...\n')
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        assert emend(*judge(provider, run)).code == 0
        folder = scoring_folder(run)
        stored = Scoring.read(folder)
        named: list[tuple[str, dict[str, Any]]] = [
            ("evil:x", {"panel": stored.panel.model_copy(update={"judges": ("evil:x",)})}),
            ("evil:x", {"panel": stored.panel.model_copy(update={"second": ("evil:x",)})}),
            ("evil:x", {"kinds": ("tendency", "agreement", "evil:x")}),
            (
                "https://models.example/v1",
                {"panel": stored.panel.model_copy(update={"judges": ("openai:m@https://models.example/v1",)})},
            ),
            (
                "https://models.example/v1",
                {"calling": stored.calling.model_copy(update={"settings": {"base_url": "https://models.example/v1"}})},
            ),
        ]
        for name, fields in named:
            change(folder, **fields)
            output = emend("resume", folder)
            assert output.code == 2 and f"--trust {name}" in output.err, fields
            stored.write(folder)
    assert not (tmp_path / "PWNED").exists() and not (Path.cwd() / "PWNED").exists()


def test_files_that_a_strangers_scoring_names_are_not_used(run: Path, emend: Any, tmp_path: Path) -> None:
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        assert emend(*judge(provider, run)).code == 0
        folder = scoring_folder(run)
        calling = Scoring.read(folder).calling
        limits = calling.limits.model_copy(update={"cache": str(tmp_path / "theirs"), "prices": "/dev/null"})
        change(folder, calling=calling.model_copy(update={"limits": limits}))
        assert emend("resume", folder).code == 0
    assert not (tmp_path / "theirs").exists()


def test_a_judge_that_is_another_one_now_is_refused(run: Path, emend: Any) -> None:
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        assert emend(*judge(provider, run)).code == 0
        asked, folder = provider.count, scoring_folder(run)
        calling = Scoring.read(folder).calling.model_copy(update={"settings": {"temperature": 1.0}})
        change(folder, calling=calling)
        output = emend("resume", folder)
        assert output.code and "emend judge run" in output.err and provider.count == asked


def test_a_scoring_out_of_its_run_is_refused(run: Path, emend: Any, tmp_path: Path) -> None:
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        assert emend(*judge(provider, run)).code == 0
        folder = scoring_folder(run)
        alone = tmp_path / "alone" / folder.name
        alone.mkdir(parents=True)
        replace_file(alone / SCORING, (folder / SCORING).read_bytes())
        output = emend("resume", alone)
    assert output.code and "scorings" in output.err


@pytest.mark.slow
def test_a_killed_scoring_is_resumed_and_only_calls_under_way_are_made_again(run: Path, emend: Any) -> None:
    with Provider(lambda asked: verdict(asked.prompt), latency=0.3) as provider:
        child = command_line.python(START, *judge(provider, run))
        while provider.count < 2:
            assert child.poll() is None, child.stderr and child.stderr.read()
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        assert emend("resume", scoring_folder(run)).code == 0
        assert len(keys(run)) == len(set(keys(run)))
        assert len(keys(run)) <= provider.count <= len(keys(run)) + 1
