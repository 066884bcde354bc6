"""DocTER's loader on bad input: what is said of a wrong option, an absent file, a malformed or missing record."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.benchmarks.docter.benchmark import DocTER
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "docter"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "docter"))


def rewrite(folder: Path, name: str, change):
    content = json.loads((folder / name).read_text())
    rows = content["data"] if isinstance(content, dict) else content
    change(rows)
    (folder / name).write_text(json.dumps(content))


def test_a_missing_folder_says_what_is_needed_and_where_it_comes_from(tmp_path):
    with pytest.raises(MissingData) as told:
        DocTER(tmp_path / "nowhere")
    for part in ("nowhere", "edit_success_eval.json", "reasoning_eval.json", "git clone https", "--data"):
        assert part in str(told.value)


def test_without_a_folder_the_environment_names_it(folder, monkeypatch):
    monkeypatch.setenv("EMEND_DATA", str(folder.parent))
    assert len(list(DocTER().cases("doc"))) == 3


@pytest.mark.parametrize(("setting", "file"), [("doc", "en_doc.json"), ("gold", "gold_facts.json")])
def test_a_setting_without_its_file_is_named_before_any_case(folder, setting, file):
    (folder / file).unlink()
    benchmark = DocTER(folder)
    with pytest.raises(MissingData, match=file):
        benchmark.cases(setting)
    assert benchmark.provenance["cases"] == 3


@pytest.mark.parametrize("setting", ["llm", "tool"])
def test_unpublished_settings_say_so_and_what_to_do(setting):
    with pytest.raises(
        BadSettings, match=rf"not published.*emend extract.*--setting {setting}; or use 'doc' .* 'gold'"
    ):
        DocTER(FIXTURE).cases(setting)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blokcs": "locality"}, "did you mean 'blocks'"),
        ({"blocks": "localty"}, "did you mean 'locality'"),
        ({"blocks": " , "}, "at least one"),
        ({"blocks": "edit_success,cros_en_zh"}, "did you mean 'cross_en_zh'"),
        ({"strip_distractor": "maybe"}, "strip_distractor='maybe'"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(options, said):
    with pytest.raises(BadSettings, match=said):
        DocTER(FIXTURE, options)


@pytest.mark.parametrize(
    ("setting", "limit", "options", "said"),
    [
        ("gould", None, {}, "did you mean 'gold'"),
        ("doc", 0, {}, "limit=0"),
        ("gold", None, {"blocks": "cross_zh_en"}, "English only"),
    ],
)
def test_impossible_requests_are_refused_before_the_first_case(setting, limit, options, said):
    with pytest.raises(BadSettings, match=said):
        DocTER(FIXTURE, options).cases(setting, limit)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("en_doc.json", lambda rows: rows[1].update(src=17), r"en_doc.json, record 1, field 'src'.*value 17\."),
        ("en_doc.json", lambda rows: rows[2].pop("src"), r"record 2, field 'src': Field required"),
        ("en_doc.json", lambda rows: rows[2].update(id=1), r"record 2, field 'id': 1 is there twice"),
        (
            "en_doc.json",
            lambda rows: rows.pop(0),
            r"edit_success_eval.json, record with id 0.*en_doc.json has no record with id 0.*Fetch",
        ),
        ("locality_eval.json", lambda rows: rows[0]["query"].__setitem__(1, ""), r"record 0, field 'query\[1\]'"),
        ("reasoning_eval.json", lambda rows: rows[0].update(label="Maybe"), r"field 'label'.*value 'Maybe'"),
        ("edit_success_eval.json", lambda rows: rows.__setitem__(0, "row"), r"edit_success_eval.json, record 0"),
    ],
)
def test_a_malformed_record_is_named_by_file_record_field_and_value(folder, file, change, said):
    rewrite(folder, file, change)
    with pytest.raises(BadData, match=said):
        list(DocTER(folder).cases("doc"))


@pytest.mark.parametrize(
    ("content", "said"), [("{", "not JSON"), ('{"data": 3}', "a list of records"), ("3", "a list")]
)
def test_a_file_that_holds_no_records_is_named(folder, content, said):
    (folder / "en_doc.json").write_text(content)
    with pytest.raises(BadData, match=f"en_doc.json.*{said}"):
        list(DocTER(folder).cases("doc"))


def test_a_reasoning_file_with_one_label_only_is_refused(folder):
    rewrite(folder, "reasoning_eval.json", lambda rows: [row.update(label="True") for row in rows])
    with pytest.raises(BadData, match=r"reasoning_eval\.json, records 0 to 2, field 'label'.*value 'True'.*whole file"):
        DocTER(folder).cases("doc")
    assert list(DocTER(folder, {"blocks": "edit_success,locality"}).cases("doc"))
