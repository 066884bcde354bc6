"""MQuAKE's loader on bad input: what is said of a wrong option, an absent or truncated file, a malformed record."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.benchmarks.mquake.benchmark import MQuAKE
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.evals.benchmarks.mquake_cases import FIXTURE, cases_of


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "mquake"))


def rewrite(folder: Path, change, name="MQuAKE-CF-3k.json"):
    rows = json.loads((folder / name).read_text())
    change(rows)
    (folder / name).write_text(json.dumps(rows))


def test_a_missing_file_says_what_is_needed_and_where_it_comes_from(tmp_path):
    with pytest.raises(MissingData, match=r"MQuAKE-CF\.json.*git clone https.*--data"):
        MQuAKE(tmp_path, {"dataset": "CF"})


def test_missing_prompts_are_named(folder):
    (folder / "prompts" / "rel-prompts.json").unlink()
    with pytest.raises(MissingData, match=r"lacks prompts/rel-prompts\.json"):
        MQuAKE(folder, {"shots": "paper"})


@pytest.mark.parametrize("content", ["[", '{"P1": 3}'])
def test_malformed_prompts_are_named(folder, content):
    (folder / "prompts" / "rel-prompts.json").write_text(content)
    with pytest.raises(BadData, match="rel-prompts.json"):
        cases_of({"shots": "paper"}, folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"datset": "CF"}, "did you mean 'dataset'"),
        ({"dataset": "CF3k"}, "did you mean 'CF-3k'"),
        ({"shots": "16"}, "unknown shots '16' of mquake.*paper"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(options, said):
    with pytest.raises(BadSettings, match=said):
        MQuAKE(FIXTURE, options)


@pytest.mark.parametrize(("setting", "limit", "said"), [("triple", None, "'triplet'"), ("triplet", 0, "limit=0")])
def test_impossible_requests_are_refused_before_the_first_case(setting, limit, said):
    with pytest.raises(BadSettings, match=said):
        MQuAKE(FIXTURE).cases(setting, limit)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[1].pop("questions"), r"MQuAKE-CF-3k.json, record 1, field 'questions': Field required"),
        (lambda rows: rows[1].update(new_answer=4), r"record 1, field 'new_answer'.*value 4"),
        (lambda rows: rows[2].update(case_id=7), r"record 2.*7 is there twice"),
        (lambda rows: rows[0]["requested_rewrite"][0].pop("subject"), r"field 'requested_rewrite\[0\].subject'"),
        (lambda rows: rows[0]["requested_rewrite"][0].update(prompt="of"), r"case_id 7.*exactly one \{\}.*'of'"),
        (lambda rows: rows[0].update(requested_rewrite=[]), r"field 'requested_rewrite'"),
        (lambda rows: rows[0]["new_single_hops"].pop(), r"case_id 7, field 'new_single_hops': 1 hops but 2"),
    ],
)
def test_a_malformed_record_is_named_by_file_record_field_and_value(folder, change, said):
    rewrite(folder, change)
    with pytest.raises(BadData, match=said):
        cases_of(folder=folder)


def test_a_truncated_file_is_named(folder):
    path = folder / "MQuAKE-CF-3k.json"
    path.write_text(path.read_text()[:500])
    with pytest.raises(BadData, match=r"MQuAKE-CF-3k\.json is not JSON"):
        cases_of(folder=folder)
