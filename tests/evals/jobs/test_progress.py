"""Shares of a long unit: reported while it lasts, and taken back when the whole unit is counted."""

import pytest

from emend.evals.jobs import progress
from emend.evals.jobs.progress import UnitShares


def shares_of(steps: int) -> list[float]:
    reported: list[float] = []
    with UnitShares(reported.append, 4) as shares:
        for _ in range(steps):
            shares.add()
    return reported


def test_shares_are_reported_and_taken_back_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0.0)
    assert shares_of(4) == [0.25, 0.25, 0.25, -0.75]  # the fourth step is the unit, which its job counts
    assert shares_of(2) == [0.25, 0.25, -0.5]


def test_a_unit_without_a_report_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_SECONDS", 1e9)
    assert shares_of(4) == []
