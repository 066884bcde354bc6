"""The sample of changed code: what is drawn, what goes on, and what the summary counts."""

from pathlib import Path

import pytest

from scripts.nightly import mutants
from scripts.nightly.mutants import Change, Judgement, Result, missing_rounds, sample, sites_in, summary

CODE = (
    "def larger(a, b):\n    if a > b:\n        return a + 1\n    return b - 2\n\n\ndef none():\n    return not False\n"
)
KILLED, SURVIVING = Result("tests/test_x.py::test", True), Result("", True)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "FOLDERS", ("rooms",))
    file = tmp_path / "rooms" / "numbers.py"
    file.parent.mkdir()
    file.write_text(CODE)
    return file


def test_a_sample_stays_when_other_lines_come(module: Path) -> None:
    drawn = sample(4, 7, ("rooms",))
    assert len({site.change for site in drawn}) == 4
    module.write_text("# A new line.\n" + CODE)
    moved = sample(4, 7, ("rooms",))
    assert [site.change for site in moved] == [site.change for site in drawn]
    assert [site.line for site in moved] == [site.line + 1 for site in drawn]
    assert all(compile(site.code(), "numbers", "exec") and site.code() != CODE for site in moved)


def test_a_judged_change_counts_only_where_no_test_kills_it(module: Path) -> None:
    drawn = sample(4, 7, ("rooms",))
    killed, alive, judged, both = (site.change for site in drawn)
    results = {killed: KILLED, alive: SURVIVING, judged: SURVIVING, both: KILLED}
    reason = Judgement("it is only tuning", "run")
    text, share = summary(drawn, results, {judged: reason, both: reason})
    assert share == pytest.approx(2 / 3) and "66.7% of those that matter" in text
    assert f"alive: {drawn[1]}" in text and "it is only tuning" in text and text.count("judged by run") == 1


@pytest.mark.parametrize(
    ("earlier", "with_slow", "again", "rounds"),
    [
        (None, False, False, ("not slow",)),
        (None, True, False, ("not slow", "slow")),
        (Result("", False), True, False, ("slow",)),
        (Result("", False), False, False, ()),
        (SURVIVING, True, False, ()),
        (SURVIVING, True, True, ("not slow", "slow")),
        (KILLED, True, True, ()),
    ],
)
def test_only_what_a_record_lacks_is_run(
    earlier: Result | None, with_slow: bool, again: bool, rounds: tuple[str, ...]
) -> None:
    assert missing_rounds(earlier, with_slow, again) == rounds


def test_every_judged_change_is_one_of_the_code() -> None:
    judged = mutants.judgements()
    possible = {site.change for module in {change.module for change in judged} for site in sites_in(module)}
    gone: set[Change] = set(judged) - possible
    assert not gone, f"remove from mutants.toml what is no longer in the code: {gone}"
    assert {judgement.found_by for judgement in judged.values()} <= {"run", "reading"}
