"""Texts that the command line prints have no key and no control character."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from emend.evals.cli.output import SafeFormatter, emit, print_text
from tests.evals.command_line import Output
from tests.evals.toy_runs import RUN

KEY = "sk-secret-9f8e7d6c5b4a3210"
HOSTILE = f"\x1b[2J\x9b31m{KEY}\u202e"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def test_texts_rows_and_warnings_are_redacted_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(HOSTILE)
    emit([{"text": HOSTILE}], True, lambda console: None)
    record = logging.LogRecord("emend", logging.WARNING, "file", 1, "found %s", (HOSTILE,), None)
    out = capsys.readouterr().out + SafeFormatter().format(record)
    assert KEY not in out and not {"\x1b", "\x9b", "\u202e"} & set(out)
    assert out.startswith("\\x1b[2J\\x9b31m<OPENAI_API_KEY>\\u202e\n")


def test_tables_are_shown_by_a_console_and_rows_are_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    def show(console: Console) -> None:
        console.print(Text("a table"))

    emit([{"n": 1}], False, show)
    emit([{"n": 1}], True, show, more=[{"m": 2}])
    table, rest = capsys.readouterr().out.split("\n", 1)
    assert table == "a table" and json.loads(rest) == {"rows": [{"n": 1}], "more": [{"m": 2}]}


@pytest.mark.parametrize(
    "words",
    [
        ("report", HOSTILE),
        ("trace", HOSTILE, "1"),
        ("list", HOSTILE),
        ("graph", HOSTILE),
        ("reproduce", HOSTILE, "--published"),
        ("data", "check", HOSTILE),
        (*RUN, "--setting", HOSTILE),
        (*RUN, "--set", HOSTILE),
        ("memory", "stats", "--memory", HOSTILE),
        ("memory", "add", "--memory", "m", "--embedding", "lexical", HOSTILE),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_an_error_repeats_no_key_and_no_escape(emend: Callable[..., Output], words: tuple[str, ...]) -> None:
    output = emend(*words)
    assert output.code == 2 and output.err.startswith("error: ") and len(output.err.splitlines()) == 1
    assert KEY not in output.err and not {"\x1b", "\x9b", "\u202e"} & set(output.err)


def test_what_is_added_is_told_with_a_folder_that_is_escaped(emend: Callable[..., Output], tmp_path: Path) -> None:
    output = emend("memory", "add", "--memory", HOSTILE, "--embedding", "lexical", "--document", "A text.")
    assert output.code == 0 and "1 new edit" in output.out and "<OPENAI_API_KEY>" in output.out
    assert KEY not in output.out and "\x1b" not in output.out and (tmp_path / HOSTILE).is_dir()


def test_numbers_that_json_cannot_hold_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}}]
    emit(rows, True, lambda console: None)
    text = capsys.readouterr().out
    assert json.loads(text, parse_constant=pytest.fail)["rows"] == [{"a": None, "b": [None, 1.5], "c": {"d": None}}]
