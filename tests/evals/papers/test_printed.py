"""What the commands print: every figure at every width, and rows of JSON."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.papers.compare_published import PublishedComparison, against
from emend.evals.papers.show.against import render_against
from emend.evals.papers.show.published import render_paper_table
from emend.evals.papers.tables import papers, table
from tests.evals.command_line import caller
from tests.evals.papers.runs import akew_run
from tests.params import first_quick


def shown(found: PublishedComparison, width: int) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(render_against(found, console))
    return file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_width_shows_every_figure(tmp_path: Path, width: int) -> None:
    text = shown(against(akew_run(tmp_path), "akew:2"), width)
    for told in ("82.80", "98.17", "66.74", "75.0", "4 / 436", "IKE (all)", "unedited", "run only", "model differs"):
        assert told in flat(text), told
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", first_quick([80, 160]))
@pytest.mark.parametrize("name", first_quick([found.id for told in papers() for found in told.tables], 4))
def test_a_table_is_printed_whole_at_every_width(name: str, width: int) -> None:
    file, found = io.StringIO(), table(name)
    console = Console(file=file, width=width)
    console.print(render_paper_table(found, console))
    text = file.getvalue()
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    words = text.replace("!", " ").split()
    for printed in {cell.printed for cell in found.cells}:
        assert words.count(printed) >= sum(cell.printed == printed for cell in found.cells), printed


def grid(name: str) -> list[list[str]]:
    """The words of each line of a printed table that holds figures, and of its headings."""
    file = io.StringIO()
    console = Console(file=file, width=160)
    console.print(render_paper_table(table(name), console))
    lines = [line.split() for line in file.getvalue().splitlines()]
    rule = next(n for n, words in enumerate(lines) if words and set(words[0]) == {"─"})
    return [*lines[2:rule], *(words for words in lines[rule:] if words and re.fullmatch(r"-?\d+\.\d+", words[-1]))]


@pytest.mark.slow
def test_a_heading_stands_once_over_what_it_heads() -> None:
    rows = grid("docter:2")[1:]
    models, settings, methods = (
        [key[at] for key in table("docter:2").keys(("model", "setting", "method"))] for at in range(3)
    )
    expected = []
    for n, (model, setting, method) in enumerate(zip(models, settings, methods, strict=True)):
        anew = n == 0 or models[n - 1] != model
        expected.append([model] * anew + [setting] * (anew or settings[n - 1] != setting) + [method])
    assert [words[: len(heads)] for words, heads in zip(rows, expected, strict=True)] == expected
    headings, parts, *_ = grid("recoe:6")
    assert headings == ["unedited", "QLoRA", "MEMIT"] and parts.count("PPL(F)") == 3


@pytest.fixture
def emend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Calls the command line in this process: exit code, stdout, stderr."""
    return caller(monkeypatch, capsys)


def test_the_list_names_every_table(emend: Any) -> None:
    code, out, _ = emend("reproduce")
    assert code == 0
    assert all(found.id in out for told in papers() for found in told.tables)
    rows = json.loads(emend("reproduce", "--json")[1])["rows"]
    assert sum(row["cells"] for row in rows) == 1494 and rows[0]["table"] == "akew:2"
    (code, out, _), (again, cells, _) = (
        emend("reproduce", "akew", "--published"),
        emend("reproduce", "akew:2", "--published"),
    )
    assert (code, again) == (0, 0) and "akew:2" in out and "docter" not in out
    assert "akew:2" in cells and "GPT2-XL" in cells and "akew:3" not in cells


def test_a_table_as_json_has_a_row_per_cell(emend: Any) -> None:
    rows = json.loads(emend("reproduce", "akew:2", "--published", "--json")[1])["rows"]
    assert len(rows) == 144
    assert rows[1] == {
        "table": "akew:2", "model": "GPT2-XL", "method": "FT", "data": "CounterFact", "setting": "unstruct",
        "metric": "editing accuracy", "unit": "percent", "drop": 100, "value": 0.07,
    }  # fmt: skip


def test_a_run_beside_a_table_and_as_json(emend: Any, tmp_path: Path) -> None:
    folder = akew_run(tmp_path)
    code, out, _ = emend("report", folder, "--against", "akew:2")
    assert code == 0 and "IKE (single)" in out and "model differs" in out
    rows = json.loads(emend("report", folder, "--against", "akew:2", "--json")[1])["rows"]
    assert [row["editor"] for row in rows if row["mean"] is not None] == ["ft", "ike", "unedited"]
    code, out, err = emend("report", folder, "--against", "akew:1")
    assert (code, out) == (2, "") and err.startswith("error: no table 'akew:1'")
