"""A covariance that an editor lacks is settled before a run's first unit."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import emend.evals.cli.covariances as module
from emend.evals.cli.covariances import settle_covariances
from emend.evals.config.run_config import RunConfig
from emend.evals.config.run_file import RunPlan
from emend.memory.errors import BadSettings

pytestmark = pytest.mark.usefixtures("own_cache")
COLLECTED = {"rome": {"covariance": "collected"}}


def plan(*editors: str, **changed: Any) -> RunPlan:
    fields = {"benchmark": "tinyworld", "editors": editors, "model": "tiny", "overrides": COLLECTED}
    return RunPlan((RunConfig.model_validate(fields | changed),))


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, wanted: bool, code: int = 0) -> list[list[str]]:
    """Answer the question, and return the commands that are run then."""
    commands: list[list[str]] = []

    def run(words: list[str], check: bool) -> Any:
        commands.append(words[3:])
        return SimpleNamespace(returncode=code)

    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdin=terminal, stderr=terminal, executable="python"))
    monkeypatch.setattr(typer, "confirm", lambda *words, **options: wanted)
    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_run_is_refused_with_three_ways_out(emend: Any) -> None:
    words = ("--benchmark", "tinyworld", "--editor", "rome", "--editor", "rag", "--set", "rome.covariance=collected")
    output = emend("run", *words, "--model", "tiny", "--out", "out")
    assert output.code == 2 and not Path("out").exists()
    for remedy in ("emend prepare covariance --model tiny", "--set rome.covariance=identity", "--skip"):
        assert remedy in output.err


def test_skip_leaves_out_the_editor_and_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    (config,) = settle_covariances(plan("rome", "rag"), skip=True).configs
    assert (config.editors, config.overrides) == (("rag",), {})
    assert "left out: rome" in capsys.readouterr().err
    with pytest.raises(BadSettings, match="leaves no editor"):
        settle_covariances(plan("rome"), skip=True)


@pytest.mark.parametrize(
    "complete",
    [
        plan("rag", overrides={}),
        plan("rome", overrides={"rome": {"covariance": "identity"}}),
        plan("rome", overrides={}),
        plan("rag", model="openai:m", overrides={}),
    ],
)
def test_a_run_that_lacks_nothing_stays_as_it_is(complete: RunPlan) -> None:
    assert settle_covariances(complete, skip=False) == complete


def test_on_a_terminal_the_collection_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = on_a_terminal(monkeypatch, wanted=True)
    assert settle_covariances(plan("rome"), skip=False) == plan("rome")
    assert commands[0][:4] == ["prepare", "covariance", "--model", "tiny"]


def test_a_collection_that_is_not_wanted_or_fails_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch, wanted=False)
    with pytest.raises(BadSettings, match="covariance=identity"):
        settle_covariances(plan("rome"), skip=False)
    on_a_terminal(monkeypatch, wanted=True, code=2)
    with pytest.raises(typer.Exit):
        settle_covariances(plan("rome"), skip=False)
