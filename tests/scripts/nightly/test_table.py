"""The table of the nightly scripts: what each row says, and what is said of those that failed."""

import sys
from pathlib import Path

import pytest

from scripts.nightly import __main__ as nightly
from scripts.nightly.__main__ import Amounts, Attack, attacks, carry_out, summary


def test_a_scale_lowers_every_number_and_leaves_none_out() -> None:
    whole, small = (list(attacks(Amounts(kills, kills, 0, scale))) for kills, scale in ((1900, 1.0), (19, 0.01)))
    assert [attack.words[0] for attack in whole] == [attack.words[0] for attack in small]
    assert "--kills=100" in whole[0].words and "--kills=1" in small[0].words
    assert "--pdfs=400" in str(whole) and "--pdfs=4" in str(small) and "--texts=1" in str(small)


def test_what_failed_is_named_with_its_error_its_output_and_how_to_repeat_it(tmp_path: Path) -> None:
    held = carry_out(Attack("fuzz", "platform", ("platform",)), tmp_path)
    failed = carry_out(Attack("fuzz", "JSON: 3 files", ("timeit", "-n1", "-r1", "raise ValueError('x y')")), tmp_path)
    assert (held.state, failed.state) == ("held", "FAILED") and held.line
    assert failed.line.startswith("ValueError: x y")
    text = summary([held, failed])
    assert text.splitlines()[1] == "1 of 2 held (2 fuzz)." and "platform" not in text
    assert "repeat: python -m timeit -n1 -r1 'raise " in text
    assert "ValueError: x y" in failed.files.with_suffix(".err").read_text() and str(failed.files) in text


def test_the_line_of_a_script_is_that_of_its_output_and_not_a_warning(tmp_path: Path) -> None:
    (tmp_path / "x.out").write_text("first\n3 kills; 0 lost\n")
    (tmp_path / "x.err").write_text("warnings.warn(...)\n")
    assert nightly.last_line(tmp_path / "x", 0) == "3 kills; 0 lost"
    assert nightly.last_line(tmp_path / "x", 1) == "warnings.warn(...)"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_a_script_that_does_not_end_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "SECONDS", 0.1)
    assert carry_out(Attack("fuzz", "server", ("http.server", "0")), tmp_path).state == "no end"
