"""ReCoE's table 4 over a file of superlative questions made anew: run, filled and marked as made anew."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import build
from tests.evals.command_line import caller
from tests.evals.construction.sources.test_recoe_records import RIVERS
from tests.provider.protocols import Asked
from tests.provider.server import Provider

LENGTHS = {subject: object_ for subject, _, object_ in RIVERS}


def answer_by_facts(asked: Asked) -> str:
    """A model that knows the lengths of all rivers, and takes those that its prompt states."""
    question = asked.prompt.rpartition("Which of ")[2].partition("?")[0]
    lengths = LENGTHS | dict(re.findall(r"(River \d+) has a length of (\d+ km)", asked.prompt))
    rivers: list[str] = re.findall(r"River \d+", question)
    return max(rivers, key=lambda name: int(lengths[name].removesuffix(" km")))


@pytest.mark.usefixtures("keys")
def test_the_table_is_filled_from_questions_made_anew(tmp_path: Path, monkeypatch: Any, capsys: Any):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    with (tmp_path / "facts.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("subject", "relation", "object"), *RIVERS])
    config = BuildConfig(source="facts.csv", schemes="superlative", cases=3, allow_conflicts=True)
    count = build("recoe", config, tmp_path / "made").items
    emend = caller(monkeypatch, capsys)
    with Provider(answer_by_facts) as provider:
        only = ("--only", "data=superlative", "--only", "method=InputAug", "--only", "setting=direct")
        words = ("reproduce", "recoe:4", *only, "--data", "made", "--model", provider.spec("chat", "asked"), "--yes")
        shown = emend(*words, "--benchmark-option", "perplexity=0")
    assert shown.code == 0, shown.err
    assert "superlative made anew, not the paper's file" in shown.out
    assert "3 of 3 figures have a number" in shown.out and f"] {count}" in shown.out
    assert "100.0 (+49.7)" in shown.out  # InputAug of Tulu 7B has 50.30
