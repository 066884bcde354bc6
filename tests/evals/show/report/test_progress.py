"""What progress says while calls wait."""

import io

import pytest

from emend.evals.show.report.progress import Lines

REASON = "429 from openai, waiting 20 s, attempt 3"


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("emend.evals.show.report.progress.time.monotonic", lambda: now[0])
    return now


def test_the_plain_log_says_once_and_at_once_why_nothing_happens(clock):
    file = io.StringIO()
    lines = Lines(file)
    lines.start(10, skipped=0)
    for _ in range(4):  # as many threads wait
        lines.waiting(20.0, REASON)
    assert file.getvalue() == f"0/10 units, 0 failed, 0 unscored, 0 tokens, {REASON}\n"
    clock[0] += 21
    lines.unit("rag")
    assert REASON not in file.getvalue().splitlines()[-1] and len(file.getvalue().splitlines()) == 2


def test_the_longest_wait_is_shown_and_short_ones_are_not(clock):
    lines = Lines(io.StringIO(), every=0.0)
    lines.waiting(0.5, "short")
    assert lines.waits == []
    lines.waiting(30.0, "long")
    lines.waiting(2.0, "short")
    assert lines.waits == ["long"]


def test_edits_that_are_solved_ahead_of_their_units_show_progress(clock):
    file = io.StringIO()
    lines = Lines(file, every=0.0)
    lines.start(10, skipped=0)
    lines.edited("rome", 15.0, 1)
    assert file.getvalue().splitlines()[-1].startswith("rome: 0/10 units")
