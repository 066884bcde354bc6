"""The viewer's page of a stream: its turns, and what was recalled for each question."""

from pathlib import Path

import pytest

from emend.evals.show.view.environment import render
from emend.evals.show.view.site import PageMissing, Site
from emend.evals.streams.run.line import TurnsLine, read_answers, read_stream_lines
from emend.evals.streams.show import turns_page
from tests.evals.streams.streams import run_systems

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two systems over a small stream."""
    run_systems(tmp_path, "bm25_newest", "empty")
    return tmp_path / "run"


def test_a_stream_has_a_page_of_its_turns_and_of_what_was_recalled(run: Path) -> None:
    with Site([run], static=True) as site:
        (entry,) = site.runs()
        page = site.page(f"run/{entry.id}/turns.html")
    observed = [line for line in read_stream_lines(run) if isinstance(line, TurnsLine) and line.editor == "empty"]
    assert [(place.number, len(place.turns)) for place in page.data.places] == [
        (line.place, len(line.turns)) for line in observed
    ]
    shown = [
        (question.prompt, answer.system, answer.verdict, len(answer.recalled))
        for place in page.data.places
        for question in place.questions
        for answer in question.answers
    ]
    verdicts = {1.0: "right", 0.0: "wrong"}
    assert sorted(shown) == sorted(
        (line.prompt, line.editor, verdicts[line.values["correct"]], len(line.retrieved)) for line in read_answers(run)
    )
    html = render(page)
    assert "decides the answer" in html and "Nothing was recalled." in html
    assert "Turns" in [tab.text for tab in page.head.tabs]


def test_further_places_follow_on_further_pages(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_page, "MAX_PLACES", 2)
    with Site([run]) as site:
        path = f"run/{site.runs()[0].id}/turns.html"
        first, second = site.page(path), site.page(path, {"from": ["2"]})
    assert (first.data.start, first.data.end, first.data.next) == (0, 2, f"{path}?from=2")
    assert (second.data.start, second.data.end) == (2, 4) and second.data.previous == path
    numbers = [place.number for place in (*first.data.places, *second.data.places)]
    assert numbers == sorted(set(numbers))


def test_other_runs_have_no_such_page(smooth: Path) -> None:
    with Site([smooth]) as site:
        run_id = site.runs()[0].id
        with pytest.raises(PageMissing):
            site.page(f"run/{run_id}/turns.html")
        assert "Turns" not in [tab.text for tab in site.page(f"run/{run_id}/errors.html").head.tabs]
