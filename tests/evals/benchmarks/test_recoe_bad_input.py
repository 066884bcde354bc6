"""ReCoE's loader on bad input: what is said of a wrong option, an absent file, a malformed record."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.benchmarks.recoe.benchmark import ReCoE
from emend.evals.case import Case
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "recoe"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "recoe"))


def rewrite(folder: Path, name: str, change):
    rows = json.loads((folder / name).read_text())
    change(rows)
    (folder / name).write_text(json.dumps(rows))


def cases(scheme: str, setting: str = "atomic") -> list[Case]:
    return list(ReCoE(FIXTURE, {"schemes": scheme}).cases(setting))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "counting"}, "did you mean 'schemes'"),
        ({"schemes": "countin"}, "did you mean 'counting'"),
        ({"schemes": " , "}, "at least one"),
        ({"prompting": "chain"}, "unknown prompting 'chain' of recoe: known: cot, direct"),
        ({"perplexity": "some"}, "perplexity='some'"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(options, said):
    with pytest.raises(BadSettings, match=said):
        ReCoE(FIXTURE, options)


@pytest.mark.parametrize(("setting", "limit", "said"), [("triples", None, "'triple'"), ("atomic", 0, "limit=0")])
def test_impossible_requests_are_refused_before_the_first_case(setting, limit, said):
    with pytest.raises(BadSettings, match=said):
        ReCoE(FIXTURE).cases(setting, limit)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"schemes": "superlative"}, "superlative.json"), ({"superlative_file": "none.json"}, "none.json")],
)
def test_a_missing_file_says_which_and_how_to_get_it(options, said):
    with pytest.raises(MissingData, match=f"{said}.*git clone https"):
        ReCoE(FIXTURE, options)


def test_a_folder_without_any_scheme_is_refused(tmp_path):
    with pytest.raises(MissingData, match="comparative.json.*--data"):
        ReCoE(tmp_path)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (
            "counting.json",
            lambda rows: rows[0].pop("answer"),
            r"counting.json, record 0, field 'answer': Field required",
        ),
        ("counting.json", lambda rows: rows[0].update(answer=[5]), r"record 0, field 'answer'.*value \[5\]\. Correct"),
        ("subtraction.json", lambda rows: rows[1].update(answer=True), r"record 1, field 'answer'.*value True"),
        ("counting.json", lambda rows: rows[0].update(counterfactual_facts=[]), r"field 'counterfactual_facts'"),
        (
            "sorting.json",
            lambda rows: rows[0].pop("counterfactuals_per_choice"),
            r"'counterfactuals_per_choice': Field",
        ),
        ("sorting.json", lambda rows: rows.__setitem__(0, "row"), r"sorting.json, record 0"),
    ],
)
def test_a_malformed_record_is_named_by_file_record_field_and_value(folder, file, change, said):
    rewrite(folder, file, change)
    with pytest.raises(BadData, match=said):
        list(ReCoE(folder).cases("atomic"))


@pytest.mark.parametrize(
    ("content", "said"), [("[{", "or cut off"), ("{}", "holds dict"), ("3", "holds int"), ("", "is not JSON")]
)
def test_a_file_that_holds_no_records_is_named(folder, content, said):
    (folder / "counting.json").write_text(content)
    with pytest.raises(BadData, match=rf"counting.json.*{said}.*git clone"):
        list(ReCoE(folder).cases("atomic"))
