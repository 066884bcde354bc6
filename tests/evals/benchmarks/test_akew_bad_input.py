"""AKEW's loader on bad input: what is said of a wrong option, an absent or truncated file, a malformed record."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.benchmarks.akew.benchmark import Akew
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "akew"


def cases(dataset="mquake_cf", setting="struct", folder=FIXTURE, **options):
    return list(Akew(folder, {"dataset": dataset} | options).cases(setting))


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "akew"))


def rewrite(folder: Path, name: str, change):
    rows = json.loads((folder / name).read_text())
    change(rows)
    (folder / name).write_text(json.dumps(rows))


def test_a_missing_file_says_what_is_needed_and_where_it_comes_from(tmp_path):
    with pytest.raises(MissingData) as told:
        Akew(tmp_path, {"dataset": "counterfact"})
    for part in ("CounterFact.json", "git clone https://github.com/BobXWu/AKEW", "--data"):
        assert part in str(told.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"datset": "counterfact"}, "did you mean 'dataset'"),
        ({"dataset": "counterfactt"}, "did you mean 'counterfact'"),
        ({"ask": "clozee"}, "did you mean 'cloze'"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(options, said):
    with pytest.raises(BadSettings, match=said):
        Akew(FIXTURE, options)


@pytest.mark.parametrize(
    ("setting", "limit", "said"), [("strukt", None, "did you mean 'struct'"), ("struct", 0, "limit=0")]
)
def test_impossible_requests_are_refused_before_the_first_case(setting, limit, said):
    with pytest.raises(BadSettings, match=said):
        Akew(FIXTURE).cases(setting, limit)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[1].pop("new_answer"), r"record 1, field 'new_answer': Field required"),
        (lambda rows: rows[1].update(new_answer=7), r"record 1, field 'new_answer'.*value 7\."),
        (lambda rows: rows[0]["questions"].pop(), r"record 0, field 'questions.*"),
        (lambda rows: rows[0].update(requested_rewrite=[]), r"record 0, field 'requested_rewrite'.*value \[\]"),
        (
            lambda rows: rows[0]["requested_rewrite"][0].update(prompt="Pell {} in {}"),
            r"record 0, field 'requested_rewrite\[0\].prompt'.*exactly one \{\}",
        ),
        (lambda rows: rows[2].update(case_id=11), r"record 2, field 'id': 11 is there twice"),
    ],
)
def test_a_malformed_record_is_named_by_file_record_field_and_value(folder, change, said):
    rewrite(folder, "MQuAKE-CF.json", change)
    with pytest.raises(BadData, match=rf"MQuAKE-CF.json, {said}"):
        cases(folder=folder)


def test_a_truncated_file_is_named(folder):
    text = (folder / "CounterFact.json").read_text()
    (folder / "CounterFact.json").write_text(text[: len(text) // 2])
    with pytest.raises(BadData, match="CounterFact.json is not JSON"):
        cases("counterfact", folder=folder)
