"""The commands of `emend data`: output, JSON, and exit code 2 on errors."""

import json
from collections.abc import Callable
from io import StringIO
from time import sleep

import pytest

from emend.evals.data.download import SOURCES, DataSource
from emend.evals.show.report.data_sets import download_bar
from tests.evals.data.origin import serving
from tests.paths import DATA

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def emend(shell: Callable[..., Call], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("COLUMNS", "200")
    return shell("data")


def test_list_names_every_file_with_licence_and_origin(emend):
    code, out, _ = emend("list")
    assert code == 0
    out = " ".join(out.split())  # long lines are folded
    for source in SOURCES.values():
        assert source.name in out
        for remote in source.remotes:
            assert remote.name in out and remote.licence in out and remote.commit[:12] in out
    _, out, _ = emend("list", "--json")
    rows = json.loads(out)["rows"]
    assert {row["data"] for row in rows} == set(SOURCES)
    assert {row["pinned"] for row in rows} == {"checksum", "commit", "address only", "made"}


def test_pull_puts_the_files_where_a_run_looks_for_them(emend, monkeypatch, tmp_path):
    with serving() as origin:
        remotes = [
            origin.remote(path.name, f"sha256:{origin.publish(path.name, path.read_bytes())}")
            for path in (DATA / "elken").glob("*.json")
        ]
        monkeypatch.setitem(SOURCES, "elken", DataSource(name="elken", remotes=tuple(remotes)))
        code, out, err = emend("pull", "elken")
        assert (code, err) == (0, "")
        assert "licence: MIT" in out and out.count("fetched") == 2 and "Next: emend data check elken" in out
        code, out, _ = emend("pull", "elken", "--json")
        assert code == 0 and {row["status"] for row in json.loads(out)["rows"]} == {"there"}
    assert (tmp_path / "data/elken/test.json").is_file()
    code, out, _ = emend("check", "elken")
    assert code == 0 and "as published" in out and "no faults" in out
    assert emend("stats", "elken")[0] == 0


def test_pull_ends_with_2_and_names_each_file_that_failed(emend, monkeypatch, tmp_path):
    with serving() as origin:
        origin.publish("a.json", b"[]")
        source = origin.source(origin.remote("a.json"), origin.remote("b.json"))
        monkeypatch.setitem(SOURCES, "akew", source)
        code, out, err = emend("pull", "akew", "--to", tmp_path / "there")
    assert code == 2 and err.startswith("error: b.json: http") and "404" in err and "Next" not in out
    assert (tmp_path / "there/a.json").read_bytes() == b"[]"


def test_check_prints_every_fault_and_ends_with_2(emend, tmp_path):
    rows = json.loads((DATA / "elken/test.json").read_text("utf-8"))
    rows[0]["event"], rows[1]["event_type"] = "", ["\x1b[31mred"]
    (tmp_path / "elken").mkdir()
    (tmp_path / "elken/test.json").write_text(json.dumps(rows), "utf-8")
    code, out, _ = emend("check", "elken", "--data", tmp_path / "elken")
    assert code == 2 and "2 faults" in out and "\x1b[31m" not in out
    assert "test.json, record 0, field 'event': " in out and "test.json, record 1, field 'event_type': " in out
    code, out, _ = emend("check", tmp_path / "elken", "--json")
    faults = [row for row in json.loads(out)["rows"] if row["kind"] == "fault"]
    assert code == 2 and [fault["field"] for fault in faults] == ["event", "event_type"]


def test_stats_prints_the_papers_figures_under_ours(emend):
    code, out, _ = emend("stats", "akew", "--data", DATA / "akew")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and ["paper", "436", "354", "9.0", "76.3", "10.1", "6.2"] in lines
    _, out, _ = emend("stats", "akew", "--data", DATA / "akew", "--json")
    (edits,) = [r for r in json.loads(out)["rows"] if (r["row"], r["column"]) == ("WikiUpdate", "edits")]
    assert edits["paper"] == 1067 and edits["agrees"] is False


def test_an_unknown_name_is_one_line_and_2(emend):
    for words in (("pull", "akw"), ("check", "akw"), ("stats", "akw")):
        code, _, err = emend(*words)
        assert code == 2 and err.startswith("error: unknown data 'akw'") and err.count("\n") == 1


def test_a_download_shows_its_name_bytes_and_rate_on_a_terminal(monkeypatch):
    terminal = StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    with download_bar("a.json", None) as report:
        sleep(0.15)  # a bar is redrawn at most ten times a second
        report(1_000, 4_000)
    assert "a.json" in terminal.getvalue() and "k" in terminal.getvalue() and "B/s" in terminal.getvalue()


def test_a_file_of_facts_with_warnings_has_no_fault(emend, tmp_path):
    fact = "Veldania;capital;{};The capital of {{}} is;What is the capital?\n"
    table = "subject;relation;object;prompt;question\n" + fact.format("Ostrim") + fact.format("3,5")
    (tmp_path / "x.csv").write_text(table, encoding="utf-8-sig")
    code, out, _ = emend("check", str(tmp_path / "x.csv"))
    assert code == 0 and out.count("warning: ") == 2 and "2 warnings" in out
