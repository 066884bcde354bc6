"""Bad input, the same faults for every loader: file, record, field, value and remedy are named, and nothing is read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emend.evals.benchmarks.registry import BENCHMARKS
from emend.evals.cli.main import main
from emend.memory.errors import BadData, BadSettings
from tests.paths import DATA


class Loader(NamedTuple):
    """A benchmark, one of its files, and a text field of that file's records."""

    benchmark: str
    file: str
    field: str
    options: dict[str, str] = {}
    setting: str = ""
    twice: str = "id"
    """What may be there once only; "" where records have nothing of the kind."""


LOADERS = [
    Loader("akew", "MQuAKE-CF.json", "new_answer", twice="id"),
    Loader("akew", "CounterFact.json", "requested_rewrite", {"dataset": "counterfact"}),
    Loader("akew", "WikiUpdate.json", "requested_rewrite", {"dataset": "wiki_update"}),
    Loader("docter", "en_doc.json", "src"),
    Loader("docter", "edit_success_eval.json", "query"),
    Loader("docter", "locality_eval.json", "original_target"),
    Loader("docter", "reasoning_eval.json", "src"),
    Loader("docter", "gold_facts.json", "subject", setting="gold"),
    Loader("docter", "cross_zh_eval.json", "altered_target", {"blocks": "cross_en_zh"}),
    Loader("elken", "test.json", "event", twice="event"),
    Loader("elken", "train.json", "event", {"split": "train"}, twice="event"),
    Loader("mquake", "MQuAKE-CF-3k.json", "answer"),
    Loader("mquake", "MQuAKE-T.json", "answer", {"dataset": "T"}),
    Loader("recoe", "comparative.json", "question", {"schemes": "comparative"}, twice=""),
    Loader("recoe", "counting.json", "counterfactual_answer", {"schemes": "counting"}, twice=""),
    Loader("recoe", "subtraction.json", "indirect_counterfactual_fact", {"schemes": "subtraction"}, twice=""),
]
every = pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: f"{loader.benchmark}-{loader.file}")


def folder_of(loader: Loader, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / loader.benchmark, tmp_path / loader.benchmark))


def damaged(loader: Loader, tmp_path: Path, change: Callable[[list[Any]], object]) -> Path:
    folder = folder_of(loader, tmp_path)
    content = json.loads((folder / loader.file).read_text())
    change(content["data"] if isinstance(content, dict) else content)
    (folder / loader.file).write_text(json.dumps(content))
    return folder


def load(loader: Loader, folder: Path) -> int:
    benchmark = BENCHMARKS.load(loader.benchmark)(folder, dict(loader.options))
    return len(list(benchmark.cases(loader.setting or benchmark.settings[0])))


@every
def test_the_file_as_it_is_loads(loader, tmp_path):
    assert load(loader, folder_of(loader, tmp_path))


@every
def test_a_file_that_is_cut_off_names_itself_where_it_breaks_and_the_remedy(loader, tmp_path):
    folder = folder_of(loader, tmp_path)
    text = (folder / loader.file).read_text()
    (folder / loader.file).write_text(text[: text.rindex('"')])
    with pytest.raises(BadData, match=r"cut off: .*; record \d+ is not whole, it begins .*(Get them|Fetch)") as told:
        load(loader, folder)
    assert str(told.value).startswith(loader.file)


@every
def test_a_missing_field_is_named_with_its_record(loader, tmp_path):
    folder = damaged(loader, tmp_path, lambda rows: rows[0].pop(loader.field))
    with pytest.raises(BadData, match=rf"{loader.file}, record 0, field '{loader.field}': Field required.*Correct"):
        load(loader, folder)


@every
def test_a_value_of_the_wrong_type_is_named_and_shown(loader, tmp_path):
    folder = damaged(loader, tmp_path, lambda rows: rows[0].update({loader.field: 4.5}))
    with pytest.raises(BadData, match=rf"{loader.file}, record 0, field '{loader.field}': .*; value 4\.5\. Correct"):
        load(loader, folder)


@every
def test_a_record_that_is_no_object_is_named(loader, tmp_path):
    folder = damaged(loader, tmp_path, lambda rows: rows.append("row"))
    with pytest.raises(BadData, match=rf"{loader.file}, record \d+, field ''.*value 'row'"):
        load(loader, folder)


@pytest.mark.parametrize(
    "loader", [one for one in LOADERS if one.twice], ids=lambda loader: f"{loader.benchmark}-{loader.file}"
)
def test_what_identifies_a_record_is_there_once(loader, tmp_path):
    folder = damaged(loader, tmp_path, lambda rows: rows.append(rows[0]))
    with pytest.raises(BadData, match=rf"{loader.file}, record \d+, field '{loader.twice}'.*(Remove one|Merge)"):
        load(loader, folder)


@pytest.mark.parametrize("name", ["akew", "docter", "elken", "mquake", "recoe"])
@pytest.mark.parametrize(
    ("setting", "limit", "said"), [("wrong", None, "unknown setting 'wrong'"), (None, 0, "limit=0")]
)
def test_an_unknown_setting_and_an_impossible_limit_are_refused_before_the_first_case(name, setting, limit, said):
    benchmark = BENCHMARKS.load(name)(DATA / name, {})
    with pytest.raises(BadSettings, match=said):
        benchmark.cases(setting or benchmark.settings[0], limit)


@pytest.mark.parametrize(
    ("name", "options", "setting"),
    [
        ("tinyworld", {}, "extract"),
        ("akew", {}, "tool"),
        ("docter", {}, "extract"),
        ("docter", {}, "tool"),
        ("elken", {}, "extract"),
        ("recoe", {}, "extract"),
    ],
)
def test_a_setting_of_extracted_triplets_is_refused_with_the_commands_that_give_it(name, options, setting):
    benchmark = BENCHMARKS.load(name)(DATA / name, options)
    said = f"make some with emend extract --benchmark {name} --out FILE .*"
    said += f"--benchmark-option triples=FILE --setting {setting};"
    with pytest.raises(BadSettings, match=said):
        list(benchmark.cases(setting))
    with pytest.raises(BadSettings, match=f"emend extract --benchmark {name} --method llm --model MODEL --out FILE"):
        list(benchmark.cases("llm"))


def test_only_texts_have_triplets_to_take_out(tmp_path):
    with pytest.raises(BadSettings, match="unknown setting 'extract' of mquake: known: triplet"):
        BENCHMARKS.load("mquake")(DATA / "mquake", {}).cases("extract")
    (tmp_path / "counterfact-edit-evidence-1k.json").write_bytes(
        (DATA / "counterfact" / "counterfact-edit.json").read_bytes()
    )
    with pytest.raises(BadSettings, match="emend extract --benchmark counterfact"):
        BENCHMARKS.load("counterfact")(tmp_path, {"dataset": "flat-evidence"}).cases("extract")
    with pytest.raises(BadSettings, match="unknown setting 'extract' of counterfact"):
        BENCHMARKS.load("counterfact")(DATA / "counterfact", {}).cases("extract")


def test_a_run_on_a_damaged_file_ends_with_one_line_and_leaves_what_was_there(tmp_path, capsys, monkeypatch):
    loader = LOADERS[3]
    folder, out = damaged(loader, tmp_path, lambda rows: rows[1].pop("src")), tmp_path / "run"
    command = ["emend", "run", "--benchmark", "docter", "--data", str(folder), "--editor", "unedited"]
    monkeypatch.setattr("sys.argv", [*command, "--model", "tests.evals.toys:ScriptedModel", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "en_doc.json, record 1, field 'src': Field required" in " ".join(told.split())
    assert json.loads((folder / "en_doc.json").read_text())["data"]
