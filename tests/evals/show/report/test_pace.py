"""Time that is left of a run, from reports at given times."""

import pytest

from emend.evals.show.report.progress import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("emend.evals.show.report.progress.time.monotonic", lambda: now[0])
    return now


def test_each_editor_counts_with_its_own_mean(clock: list[float]) -> None:
    pace = Pace()
    pace.plan({"rag": 4, "rome": 4}, {})
    for _ in range(4):
        clock[0] += 1
        pace.add("rag", 1)
    assert pace.seconds_left(4) == pytest.approx(4.0)  # nothing is known of rome: as fast as rag
    clock[0] += 30
    pace.add("rome", 1)
    assert pace.seconds_left(3) == pytest.approx(90.0)


def test_an_editor_without_a_unit_counts_for_what_it_passes_through_the_model(clock: list[float]) -> None:
    pace = Pace()
    pace.plan({"rag": 2, "rome": 3}, {"rag": 100.0, "rome": 2_000.0})
    clock[0] += 1
    assert pace.seconds_left(5) is None
    pace.add("rag", 1)
    assert pace.seconds_left(4) == pytest.approx(1 + 3 * 20)


def test_probes_of_a_long_unit_shorten_the_time_left_and_are_taken_back_at_its_end(clock: list[float]) -> None:
    pace = Pace()
    pace.plan({"rag": 3}, {})
    clock[0] += 10
    pace.add("rag", 1)
    left = [pace.seconds_left(2)]
    for _ in range(2):
        clock[0] += 4
        pace.add("rag", 0.4)
        left.append(pace.seconds_left(2))
    clock[0] += 2
    pace.add("rag", -0.8)
    pace.add("rag", 1)
    assert [*left, pace.seconds_left(1)] == pytest.approx([20.0, 16.0, 12.0, 10.0])


def test_edits_solved_ahead_are_shared_by_the_units_they_are_for(clock: list[float]) -> None:
    pace = Pace()
    pace.plan({"rome": 8}, {})
    left = []
    for unit in range(8):
        if unit % 4 == 0:
            clock[0] += 40
            pace.edited("rome", 40.0, 4)
        clock[0] += 1
        pace.add("rome", 1)
        left.append(pace.seconds_left(7 - unit))
    assert left == pytest.approx([47.0, 46.0, 45.0, 44.0, 3.0, 2.0, 1.0, 0.0])


def test_edits_of_all_units_are_no_part_of_the_time_left(clock: list[float]) -> None:
    pace = Pace()
    pace.plan({"memit": 100}, {})
    clock[0] += 600
    pace.edited("memit", 600.0, 0)
    for unit in range(2):
        clock[0] += 1
        pace.add("memit", 1)
        assert pace.seconds_left(99 - unit) == pytest.approx(99.0 - unit)


def test_without_a_plan_the_mean_of_all_units_counts(clock: list[float]) -> None:
    pace = Pace()
    clock[0] += 3
    pace.add("rag", 1)
    assert pace.seconds_left(5) == pytest.approx(15.0)
