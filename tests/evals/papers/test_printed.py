"""What the commands print: every figure at every width, and rows of JSON."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.papers.compare_published import Comparison, against
from emend.evals.papers.tables import papers, table
from emend.evals.report.tables.papers import render_paper_table
from emend.evals.report.tables.published import render_against
from tests.evals.command_line import caller
from tests.evals.papers.runs import akew_run


def shown(found: Comparison, width: int) -> str:
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


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", [found.id for told in papers() for found in told.tables])
def test_a_table_is_printed_whole_at_every_width(name: str, width: int) -> None:
    file, found = io.StringIO(), table(name)
    console = Console(file=file, width=width)
    console.print(render_paper_table(found, console))
    text = file.getvalue()
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    words = text.replace("!", " ").split()
    for printed in {cell.printed for cell in found.cells}:
        assert words.count(printed) >= sum(cell.printed == printed for cell in found.cells), printed


def test_a_heading_stands_once_over_what_it_heads() -> None:
    file, found = io.StringIO(), table("docter:2")
    console = Console(file=file, width=160)
    console.print(render_paper_table(found, console))
    lines = file.getvalue().splitlines()
    models, settings = (list(dict.fromkeys(key[at] for key in found.keys(found.rows))) for at in (0, 1))
    for model in models:
        (place,) = (n for n, line in enumerate(lines) if line.split() and model in line and settings[0] in line.split())
        assert sum(model in line for line in lines) == 1
        assert settings[0] in lines[place].split(), "the setting is named anew for every model"
    for setting in settings:
        assert sum(setting in line.split() for line in lines[2:]) == len(models)
    methods = [key[2] for key in found.keys(found.rows)]
    assert [method for line in lines for method in line.split() if method in methods] == methods
    file.truncate(0)
    console.print(render_paper_table(table("recoe:6"), console))
    assert (file.getvalue().count("unedited"), file.getvalue().count("PPL(F)")) == (1, 2)


@pytest.fixture
def emend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Calls the command line in this process: exit code, stdout, stderr."""
    return caller(monkeypatch, capsys)


def test_the_list_names_every_table(emend: Any) -> None:
    code, out, _ = emend("papers")
    assert code == 0
    assert all(found.id in out for told in papers() for found in told.tables)
    rows = json.loads(emend("papers", "--json")[1])["rows"]
    assert sum(row["cells"] for row in rows) == 1494 and rows[0]["table"] == "akew:2"
    assert "docter" not in emend("papers", "akew")[1]


def test_a_table_as_json_has_a_row_per_cell(emend: Any) -> None:
    rows = json.loads(emend("papers", "akew:2", "--json")[1])["rows"]
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
