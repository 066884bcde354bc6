"""An export is complete, the same each time, and asks nothing of anyone."""

import base64
import hashlib
import re
import shutil
from pathlib import Path

import pytest

from emend.evals.api.result import RunResult
from emend.evals.show.view.export import LISTING, Exporter, export_folder, single_page
from emend.memory.errors import BadSettings
from tests.evals.command_line import emend

LINK = re.compile(r'(?:href|src)="([^"]*)"')
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def run(smooth, tmp_path):
    return shutil.copytree(smooth, tmp_path / "runs" / "smooth")


def contents(folder: Path):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_an_anchor_of_the_export(run, tmp_path):
    summary = export_folder([run], tmp_path / "pages", "1")
    assert summary.cases == 1 and summary.left_out > 3 and summary.pages > 8
    (cases,) = (tmp_path / "pages").rglob("cases.html")
    assert cases.read_text("utf-8").count("<b>Case ") == 1  # the others are not listed
    for page in (tmp_path / "pages").rglob("*.html"):
        text = page.read_text("utf-8")
        assert f"{summary.left_out:,} of {summary.left_out + 1:,} cases" in text and "<form" not in text
        assert 'type="module"' not in text and "http:" not in text and "https:" not in text
        for link in LINK.findall(text):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert not path.startswith("/") and target.is_file(), (page, link)
            assert not anchor or f'id="{anchor}"' in target.read_text("utf-8"), (page, link)


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes_and_old_pages_go(run, tmp_path):
    export_folder([run], tmp_path / "first", "all")
    export_folder([run], tmp_path / "second", "all")
    before = contents(tmp_path / "first")
    assert len(before["static/view.js"]) < 20_000
    assert before == contents(tmp_path / "second")
    export_folder([run], tmp_path / "second", "1")
    after = contents(tmp_path / "second")
    assert len(after) < len(before)
    export_folder([run], tmp_path / "second", "all")
    assert contents(tmp_path / "second") == before


@pytest.mark.slow
def test_other_files_are_never_written_over(run, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(BadSettings, match="contains other files"):
        export_folder([run], tmp_path / "mine")
    (tmp_path / "mine" / "export.txt").write_text("../thesis\n/etc/hosts\nthesis.txt\n")
    (tmp_path / "thesis").touch()
    export_folder([run], tmp_path / "mine")
    assert (tmp_path / "thesis").exists()  # a listing cannot name what is outside
    assert emend("view", str(tmp_path / "mine"), "--export", str(tmp_path / "none")) == 2  # an export is no run
    assert "no run found" in capsys.readouterr().err and not (tmp_path / "none").exists()
    for words, message in (
        (["--cases", "all"], "--cases selects"),
        (["--export", "a", "--single", "b.html"], "give one of them"),
        (["--single", "b.pdf"], "ends in .html"),
        (["--export", "a", "--cases", "some"], "all, wrong, flipped or a number"),
    ):
        assert emend("view", str(run), *words) == 2 and message in capsys.readouterr().err


def test_an_interrupted_export_is_made_again_by_the_same_call(run, tmp_path, monkeypatch):
    pages = Exporter.pages

    def interrupted(self: Exporter):
        yield next(pages(self))
        raise KeyboardInterrupt

    monkeypatch.setattr(Exporter, "pages", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_folder([run], tmp_path / "pages", "1")
    monkeypatch.undo()
    export_folder([run], tmp_path / "pages", "1")
    listed = (tmp_path / "pages" / LISTING).read_text("utf-8").split()
    assert sorted(contents(tmp_path / "pages")) == sorted([*listed, LISTING]) and "index.html" in listed


@pytest.mark.slow
def test_one_file_allows_only_its_own_script_and_style(run, tmp_path, capsys):
    assert emend("view", str(run), "--single", str(tmp_path / "run.html"), "--cases", "2") == 0
    assert "cases are left out" in capsys.readouterr().out
    text = (tmp_path / "run.html").read_text("utf-8")
    for name in ("script", "style"):
        (body,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in text.replace("&#39;", "'")
    anchors = set(re.findall(r'id="([^"]*)"', text))
    assert {link.removeprefix("#") for link in LINK.findall(text) if link.startswith("#")} <= anchors
    assert all(link.startswith(("#", "data:")) for link in LINK.findall(text))
    assert (tmp_path / "run.html").read_text("utf-8") == single_page([run], "2")[0]


def test_a_notebook_shows_the_pages_in_a_frame_of_their_own(run, tmp_path):
    frame = RunResult(run).view(cases=1, height=300)
    html = frame._repr_html_()
    assert html.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in html and 'height="300"' in html
    assert html.count("<") == 2  # all of the pages is within the attribute
    assert "pages for a notebook" in repr(frame)
    frame.save(tmp_path / "kept.html")
    assert (tmp_path / "kept.html").read_text("utf-8") == frame.html
