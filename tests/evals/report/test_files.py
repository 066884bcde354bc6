"""What goes into pipes and files is as long as its text, and is what the name of the file says."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from emend.evals.aggregate.rows import Report
from emend.evals.papers.tables import papers
from emend.evals.report.plots.svg import write_svg
from emend.evals.report.tables.analysis import show_possible
from emend.evals.report.tables.papers import show_list
from emend.memory.errors import BadSettings

WHY = "the run has no reference texts"


@pytest.mark.parametrize(
    "show",
    [
        lambda console: show_list(papers(), console),
        lambda console: show_possible([("drop", "accuracy lost", ""), ("known", "", WHY)], "run", console),
    ],
)
def test_a_line_in_a_pipe_is_not_filled_up_with_blanks(show: Callable[[Console], None]) -> None:
    file = io.StringIO()
    show(Console(file=file, width=400, soft_wrap=True))
    lines = file.getvalue().splitlines()
    longest = max(len(line.rstrip()) for line in lines)
    assert longest < 400 and max(map(len, lines)) <= longest


@pytest.mark.parametrize("name", ["a.png", "a", "svg"])
def test_a_picture_is_refused_under_a_name_that_says_something_else(tmp_path: Path, name: str) -> None:
    empty = Report(
        benchmark="b", model="m", rows=(), metrics=(), records=0, cases=0, cut=0, failed=0, missing=0, reasons={}
    )
    with pytest.raises(BadSettings, match=rf"--svg .*{name}: the ending must be \.svg"):
        write_svg(empty, tmp_path / name)
    assert not list(tmp_path.iterdir())
