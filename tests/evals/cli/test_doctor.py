"""`emend doctor`: the data folders that a run uses."""

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from emend.evals.cli.commands.doctor import Finding, _data, _show_findings
from tests.paths import DATA

AKEW = DATA / "akew"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMEND_DATA", raising=False)


def told() -> dict[str, tuple[str, str]]:
    return {check: (status, detail) for _, check, status, detail, *_ in _data()}


def test_the_default_data_folder_is_reported_with_its_benchmarks(tmp_path: Path) -> None:
    shutil.copytree(AKEW, tmp_path / "data" / "akew")
    (tmp_path / "data" / "docter").mkdir()  # has none of the benchmark's files
    status, detail = told()["data/"]
    assert status == "ok" and detail.startswith("akew: used if neither --data nor EMEND_DATA is given")


def test_without_any_files_the_download_command_is_named() -> None:
    status, detail = told()["data/"]
    assert status == "absent" and "emend data pull" in detail


def test_the_default_folder_is_ignored_if_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(AKEW, tmp_path / "all" / "akew")
    monkeypatch.setenv("EMEND_DATA", str(tmp_path / "all"))
    assert told() == {"EMEND_DATA": ("ok", f"{tmp_path / 'all'}: akew")}


def test_each_section_shows_its_own_checks_and_measurements_as_numbers() -> None:
    rows = [("Files", "data/", "absent", ""), ("Keys", "OPENAI_API_KEY", "ok", "set"), ("Files", "cache/", "ok", "")]
    findings = [Finding(s, c, status, d) for s, c, status, d in rows]  # type: ignore[arg-type]
    findings.append(Finding("Card", "ES", "ok", "", mean=0.5, n=4, low=0.25, high=0.75))
    file = io.StringIO()
    _show_findings(findings, Console(file=file, width=60))
    assert [line.split() for line in file.getvalue().splitlines()] == [
        ["Files"], ["data/", "absent"], ["cache/", "ok"], ["Keys"], ["OPENAI_API_KEY", "ok", "set"],
        ["Card"], ["ES", "0.500", "[0.250,", "0.750]", "n=4"],
    ]  # fmt: skip
