"""Names of older commands work, are in no help, and say which command they are now."""

from typing import Any

import pytest

from emend.evals.cli.main import command_summaries, old_names
from tests.evals.toy_runs import RUN, TRUST, go


def test_the_help_lists_no_old_name(emend: Any) -> None:
    listed = {command.name for command in command_summaries()}
    assert not listed & old_names().keys() and {"prepare", "reproduce", "report"} <= listed
    assert " covariance " not in emend("--help").out


@pytest.mark.parametrize("name", [name for name in old_names() if name != "resume"])
def test_an_old_name_answers_with_the_new_one(emend: Any, name: str) -> None:
    output = emend(name, "--help")
    assert output.code == 0 and output.err == f"note: emend {name} is now {old_names()[name]}\n"


def test_run_with_a_run_folder_continues_it_as_resume_does(emend: Any) -> None:
    emend(*RUN, "--out", "out", "--limit", "1")
    output = emend("run", "out", *TRUST)
    assert output.code == 0 and "Nothing to do" in output.out
    assert "concurrency 2 (stored: 4)" in emend("run", "out", *TRUST, "--concurrency", "2").err
    untrusted = emend("run", "out")
    assert untrusted.code == 2 and "--trust" in untrusted.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--editor", "rag"), "--editor cannot be used with a run folder"),
        (("--require", "ES>=1"), "--require cannot be used with a run to continue"),
        (("--out", "other"), "--out cannot be used with a run to continue"),
    ],
)
def test_options_that_a_run_folder_decides_are_refused(emend: Any, words: tuple[str, ...], error: str) -> None:
    emend(*RUN, "--out", "out", "--limit", "1")
    output = emend("run", "out", *TRUST, *words)
    assert output.code == 2 and error in output.err and "eave it out" in output.err.replace("them", "it")


def test_a_folder_that_is_no_run_is_named(emend: Any, tmp_path: Any) -> None:
    (tmp_path / "empty").mkdir()
    output = emend("run", "empty")
    assert output.code == 2 and "'empty' is a folder, but not a run" in output.err


def test_report_answers_in_sql(emend: Any, tmp_path: Any) -> None:
    go(tmp_path / "out", limit=1)
    assert "records" in emend("report", "out", "--sql", "").out
    (row,) = emend("report", "out", "--sql", "select count(*) as n from records", "--json").rows
    assert row["n"] > 0
    assert emend("report", "out", "--sql", "from records", "--out", "rows.csv").code == 0
    assert (tmp_path / "rows.csv").read_text().startswith("case,") or (tmp_path / "rows.csv").stat().st_size
    for words, error in (
        (("--out", "x.csv"), "--out is the file of --sql"),
        (("--sql", "from records", "--sort", "ES"), "--sql prints its own table"),
    ):
        output = emend("report", "out", *words)
        assert output.code == 2 and error in output.err
