"""`emend build KIND` has the options that the kind reads, and no others."""

from pathlib import Path
from typing import Any

import pytest

from emend.evals.cli.main import load_command
from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.commands.kind_options import KIND_OPTIONS, kinds_with
from emend.evals.construction.fresh import FRESH
from emend.evals.construction.kinds import KINDS
from emend.evals.construction.registry import CONSTRUCTIONS
from tests.evals import command_line


def test_every_kind_is_a_command_and_its_summary_is_that_of_the_list() -> None:
    build: Any = load_command("build")
    assert set(build.commands) == set(KIND_OPTIONS) == {*KINDS, FRESH}
    for name, row in CONSTRUCTIONS.builtin.items():
        assert KIND_OPTIONS[name].summary == row[1]
    for name, kind in KINDS.items():
        assert KIND_OPTIONS[name].is_composed == (kind.prepare is not None)


def test_every_field_is_an_option_of_some_kind() -> None:
    assert [name for name in BuildConfig.model_fields if not kinds_with(name)] == []


@pytest.mark.parametrize(
    ("kind", "own", "others"),
    [
        ("akew", ["--judge"], ["--hops", "--queries", "--since", "--keep"]),
        ("chains", ["--hops", "--edits", "--cases"], ["--queries", "--since", "--limit"]),
        ("fresh", ["--fact", "--keep", "--data"], ["--judge", "--recipe", "--review"]),
    ],
)
def test_the_help_of_a_kind_has_its_options_alone(
    kind: str, own: list[str], others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.emend("build", kind, "--help") == 0
    words = set(capsys.readouterr().out.split())
    assert set(own) <= words and not set(others) & words


def test_the_help_of_a_model_says_what_it_does_for_the_kind() -> None:
    told = {kind: options.help_texts.get("model", "") for kind, options in KIND_OPTIONS.items()}
    assert [kind for kind, text in told.items() if "is tested" in text] == [FRESH]
    composed = {kind for kind, options in KIND_OPTIONS.items() if options.is_composed}
    assert {kind for kind, text in told.items() if "paraphrases" in text} == composed


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("questoins",), "cannot build 'questoins': did you mean 'questions'"),
        (("--from", "x", "akew"), "the kind comes first"),
        (("akew", "--queries", "zh", "--out", "x"), "build akew has no --queries: it is an option of docter"),
        (("fresh", "--recipe=paper", "--out", "x"), "build fresh has no --recipe"),
    ],
)
def test_a_wrong_kind_and_another_kinds_option_are_named(
    words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.emend("build", *words) == 2
    assert error in capsys.readouterr().err


def test_options_in_no_help_work_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["subject,relation,object", *(f"S{n},capital,S{n + 1}" for n in range(6))]
    Path("table.csv").write_text("\n".join(rows) + "\n")
    words = ("--from", "table.csv", "--hops", "2", "--edits", "1", "--limit", "1", "--workers", "threads")
    assert command_line.emend("build", "chains", *words, "--out", "out") == 0
    assert (tmp_path / "out" / "card.json").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--max-cost nan", "--max-cost is nan"),
        ("--max-calls -1", "--max-calls is -1"),
        ("--rpm 0", "--rpm is 0"),
        ("--tpm nan", "--tpm is nan"),
        ("--language ../x", "--language is '../x'"),
        ("--language en_", "--language is 'en_'"),
        ("--set build.attempts=0", "build.attempts=0"),
        ("--set build.agents=1", "build.agents=1"),
        ("--set build.rounds=0", "build.rounds=0"),
        ("--review /etc", "--review with --dry-run"),
    ],
)
def test_a_dry_run_refuses_what_the_construction_would_refuse(
    words: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lock.txt").write_text(
        "Tarn Lock was built by Ana Tarnez in 1920. Its keeper, since May, is Luis Ruiz. " * 2
    )
    source = ("--from", str(tmp_path), "--model", "openai:author", "--out", "x", "--dry-run")
    assert command_line.emend("build", "questions", *source, *words.split()) == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("since", ["2026-99-99", "yesterday", "2026-13"])
def test_a_day_that_is_none_is_refused_in_a_dry_run_too(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--from", "dump.json", "--model", "openai:author", "--out", "x", "--dry-run", "--since", since)
    assert command_line.emend("build", "wikiupdate", *words) == 2
    assert f"--since is '{since}'" in capsys.readouterr().err
