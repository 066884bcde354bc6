"""Bad input, the same faults for every loader: file, record, field, value and remedy are named, and nothing is read."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emend.evals.cli.main import main
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.check import check
from emend.memory.errors import BadData, BadSettings, MissingData
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


def load_benchmark(name: str, folder: Path | None = None, options: dict[str, str] | None = None) -> Any:
    return BENCHMARKS.load(name)(folder, options or {})


def folder_of(loader: Loader, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / loader.benchmark, tmp_path / loader.benchmark))


def damaged(loader: Loader, tmp_path: Path, change: Callable[[list[Any]], object]) -> Path:
    folder = folder_of(loader, tmp_path)
    content = json.loads((folder / loader.file).read_text())
    change(content["data"] if isinstance(content, dict) else content)
    (folder / loader.file).write_text(json.dumps(content))
    return folder


def load(loader: Loader, folder: Path) -> int:
    benchmark = load_benchmark(loader.benchmark, folder, dict(loader.options))
    return len(list(benchmark.cases(loader.setting or benchmark.settings[0])))


@every
def test_the_file_as_it_is_loads(loader, tmp_path):
    assert load(loader, folder_of(loader, tmp_path))


@every
def test_a_file_that_is_cut_off_names_itself_where_it_breaks_and_the_remedy(loader, tmp_path):
    folder = folder_of(loader, tmp_path)
    text = (folder / loader.file).read_text()
    (folder / loader.file).write_text(text[: text.rindex('"')])
    with pytest.raises(BadData, match=r"truncated: .*; record \d+ is incomplete, it begins .*(Get them|Fetch)") as told:
        load(loader, folder)
    assert str(told.value).startswith(loader.file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "not valid JSON in UTF-8, .*recursion limit exceeded"),
        (b"[1" + b"0" * 5_000 + b"]", "number out of range|record 0"),
        ("[]".encode("utf-16"), "not valid JSON in UTF-8"),
        (b"[\x00]", "not valid JSON in UTF-8"),
    ],
    ids=["deep", "huge", "utf-16", "nul"],
)
@pytest.mark.parametrize("loader", [LOADERS[0], LOADERS[3], LOADERS[9], LOADERS[11], LOADERS[13]], ids=str)
def test_a_file_that_json_readers_stumble_over_is_refused_by_loader_and_check(loader, content, words, tmp_path):
    folder = folder_of(loader, tmp_path)
    (folder / loader.file).write_bytes(content)
    with pytest.raises(BadData, match=rf"^{loader.file}.*({words})"):
        load(loader, folder)
    assert loader.file in {fault.file for fault in check(loader.benchmark, folder).faults}


def test_a_prompt_that_is_no_text_is_refused(tmp_path):
    folder = folder_of(Loader("mquake", "", ""), tmp_path)
    (folder / "prompts/multihop-prompts.txt").write_bytes(b"Q: \xff")
    with pytest.raises(BadData, match="multihop-prompts.txt is not UTF-8 text"):
        load(Loader("mquake", "", "", {"shots": "paper"}), folder)


@every
def test_a_missing_field_is_named_with_its_record(loader, tmp_path):
    folder = damaged(loader, tmp_path, lambda rows: rows[0].pop(loader.field))
    with pytest.raises(BadData, match=rf"{loader.file}, record 0, field '{loader.field}': it is missing.*Correct"):
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
    said = f"extract them with emend extract --benchmark {name} --out FILE .*"
    said += f"--benchmark-option triples=FILE --setting {setting};"
    with pytest.raises(BadSettings, match=said):
        list(benchmark.cases(setting))
    with pytest.raises(BadSettings, match=f"emend extract --benchmark {name} --method llm --model MODEL --out FILE"):
        list(benchmark.cases("llm"))


def test_only_texts_have_triplets_to_take_out(tmp_path):
    with pytest.raises(BadSettings, match="unknown setting 'extract' of mquake: known: triplet"):
        load_benchmark("mquake", DATA / "mquake", {}).cases("extract")
    (tmp_path / "counterfact-edit-evidence-1k.json").write_bytes(
        (DATA / "counterfact" / "counterfact-edit.json").read_bytes()
    )
    with pytest.raises(BadSettings, match="emend extract --benchmark counterfact"):
        load_benchmark("counterfact", tmp_path, {"dataset": "flat-evidence"}).cases("extract")
    with pytest.raises(BadSettings, match="unknown setting 'extract' of counterfact"):
        load_benchmark("counterfact", DATA / "counterfact", {}).cases("extract")


NAMES = ("akew", "counterfact", "docter", "elken", "mquake", "recoe")
ABSENT = object()
BAD_OPTIONS = [
    ("akew", {"datset": "counterfact"}, "did you mean 'dataset'"),
    ("akew", {"dataset": "counterfactt"}, "did you mean 'counterfact'"),
    ("akew", {"ask": "clozee"}, "did you mean 'cloze'"),
    ("docter", {"blokcs": "locality"}, "did you mean 'blocks'"),
    ("docter", {"blocks": "localty"}, "did you mean 'locality'"),
    ("docter", {"blocks": " , "}, "at least one"),
    ("docter", {"blocks": "edit_success,cros_en_zh"}, "did you mean 'cross_en_zh'"),
    ("docter", {"strip_distractor": "maybe"}, "strip_distractor='maybe'"),
    ("elken", {"blocks": "facts"}, "did you mean 'fact'"),
    ("elken", {"blocks": " , "}, "at least one of"),
    ("elken", {"split": "dev"}, "unknown split 'dev'"),
    ("elken", {"splitt": "test"}, "did you mean 'split'"),
    ("mquake", {"datset": "CF"}, "did you mean 'dataset'"),
    ("mquake", {"dataset": "CF3k"}, "did you mean 'CF-3k'"),
    ("mquake", {"shots": "16"}, "unknown shots '16' of mquake.*paper"),
    ("counterfact", {"datset": "flat"}, "did you mean 'dataset'"),
    ("counterfact", {"dataset": "flatt"}, "did you mean 'flat'"),
    ("counterfact", {"generation": "many"}, "100 as published"),
    ("counterfact", {"generation": "100", "dataset": "flat"}, "no generation prompts; use original"),
    ("recoe", {"scheme": "counting"}, "did you mean 'schemes'"),
    ("recoe", {"schemes": "countin"}, "did you mean 'counting'"),
    ("recoe", {"schemes": " , "}, "at least one"),
    ("recoe", {"prompting": "chain"}, "unknown prompting 'chain' of recoe: known: cot, direct"),
    ("recoe", {"perplexity": "some"}, "perplexity='some'"),
]
BAD_REQUESTS = [
    *((name, {}, "wrong", None, "unknown setting 'wrong'") for name in NAMES),
    *((name, {}, "", 0, "limit=0") for name in NAMES),
    ("akew", {}, "strukt", None, "did you mean 'struct'"),
    ("docter", {}, "gould", None, "did you mean 'gold'"),
    ("docter", {"blocks": "cross_zh_en"}, "gold", None, "English only"),
    ("docter", {}, "llm", None, "needs triplets.*emend extract.*--setting llm; or use .*: doc, gold"),
    ("docter", {}, "tool", None, "needs triplets.*emend extract.*--setting tool; or use .*: doc, gold"),
    ("elken", {}, "events", None, "did you mean"),
    *((name, {}, "triple", None, "'triplet'") for name in ("counterfact", "mquake")),
    ("recoe", {}, "triples", None, "'triple'"),
]
MISSING = [
    ("akew", {"dataset": "counterfact"}, "CounterFact.json.*git clone https://github.com/BobXWu/AKEW.*--data"),
    ("counterfact", {"dataset": "multi"}, "multi_counterfact.json.*curl.*--data"),
    ("docter", {}, "edit_success_eval.json.*reasoning_eval.json.*git clone https.*--data"),
    ("elken", {}, "test.json.*git clone .*Event-Level-Knowledge-Editing"),
    ("mquake", {"dataset": "CF"}, "MQuAKE-CF.json.*git clone https.*--data"),
    ("recoe", {}, "comparative.json.*--data"),
    ("recoe", {"schemes": "superlative"}, "superlative.json.*git clone https"),
    ("recoe", {"superlative_file": "none.json"}, "none.json.*git clone https"),
]
"""Benchmark, options, and what is said of an empty folder."""
AKEW, MQUAKE, DOCS, FACTS = "MQuAKE-CF.json", "MQuAKE-CF-3k.json", "en_doc.json", "counterfact.json"
BAD_RECORDS = [
    ("akew", AKEW, "1.new_answer", ABSENT, "record 1, field 'new_answer': it is missing"),
    ("akew", AKEW, "1.new_answer", 7, "record 1, field 'new_answer'.*value 7[.]"),
    ("akew", AKEW, "0.questions.-1", ABSENT, "record 0, field 'questions.*"),
    ("akew", AKEW, "0.requested_rewrite", [], r"record 0, field 'requested_rewrite'.*value \[\]"),
    (
        "akew",
        AKEW,
        "0.requested_rewrite.0.prompt",
        "Pell {} in {}",
        r"requested_rewrite\[0\].prompt'.*exactly one \{\}",
    ),
    ("akew", AKEW, "2.case_id", 11, "record 2, field 'id': 11 occurs twice"),
    ("counterfact", FACTS, "1.paraphrase_prompts", ABSENT, "counterfact.json, record 1, field 'para"),
    ("counterfact", FACTS, "2.case_id", 3, "record 2.*3 occurs twice"),
    ("counterfact", FACTS, "0.requested_rewrite.prompt", "x", r"record 0.*prompt'.*exactly one \{\}"),
    ("counterfact", FACTS, "0.requested_rewrite.target_new", 5, "target_new'.*value 5"),
    ("counterfact", "counterfact-edit.json", "0.subject", "Zed", "record 0, field 'prompt'.*'Zed'"),
    ("counterfact", "counterfact-edit.json", "1.target_new", "", "record 1, field 'target_new'"),
    ("docter", DOCS, "1.src", 17, "record 1, field 'src'.*value 17[.]"),
    ("docter", DOCS, "2.src", ABSENT, "record 2, field 'src': it is missing"),
    ("docter", DOCS, "2.id", 1, "record 2, field 'id': 1 occurs twice"),
    ("docter", DOCS, "0", ABSENT, "record with id 0.*en_doc.json has no record with id 0.*Fetch"),
    ("docter", "locality_eval.json", "0.query.1", "", r"record 0, field 'query\[1\]'"),
    ("docter", "locality_eval.json", "0.query", [], r"record 0, field 'query'.*1 or more.*value \[\]"),
    ("docter", "reasoning_eval.json", "0.label", "Maybe", "field 'label'.*value 'Maybe'"),
    ("docter", "edit_success_eval.json", "0", "row", "edit_success_eval.json, record 0"),
    ("elken", "test.json", "1.event", ABSENT, "record 1, field 'event': it is missing"),
    ("elken", "test.json", "0.fact.qas.1.type", 2, r"record 0, field 'fact\.qas\[1\]\.type'.*value 2"),
    ("elken", "test.json", "0.fact.qas.0.type", ABSENT, r"field 'fact\.qas\[0\]\.type': it is missing"),
    ("elken", "test.json", "0.fact.local_qas.0.answer.name", 5, r"local_qas\[0\]\.answer\.name.*5\."),
    ("elken", "test.json", "1.tendency.qas.0.answer", "D", r"tendency\.qas\[0\]\.answer.*value 'D'"),
    ("elken", "test.json", "1.tendency.qas.0.candidate", "yes or no", "candidate'.*three options.*yes"),
    ("elken", "test.json", "3.event", lambda rows: rows[1]["event"], "record 3, field 'event'.*record 1.*Merge"),
    ("elken", "test.json", "2", "row", "record 2"),
    ("mquake", MQUAKE, "1.questions", ABSENT, "record 1, field 'questions': it is missing"),
    ("mquake", MQUAKE, "1.new_answer", 4, "record 1, field 'new_answer'.*value 4"),
    ("mquake", MQUAKE, "2.case_id", 7, "record 2.*7 occurs twice"),
    ("mquake", MQUAKE, "0.requested_rewrite.0.subject", ABSENT, r"field 'requested_rewrite\[0\].subject'"),
    ("mquake", MQUAKE, "0.requested_rewrite.0.prompt", "of", r"record 0, .*exactly one \{\}.*'of'"),
    ("mquake", MQUAKE, "0.requested_rewrite", [], "field 'requested_rewrite'"),
    ("mquake", MQUAKE, "0.new_single_hops.-1", ABSENT, "record 0, field 'new_single_hops': .*1 hops but 2"),
    ("recoe", "counting.json", "0.answer", ABSENT, "record 0, field 'answer': it is missing"),
    ("recoe", "counting.json", "0.answer", [5], r"record 0, field 'answer'.*value \[5\]\. Correct"),
    ("recoe", "subtraction.json", "1.answer", True, "record 1, field 'answer'.*value True"),
    ("recoe", "counting.json", "0.counterfactual_facts", [], "field 'counterfactual_facts'"),
    ("recoe", "sorting.json", "0.counterfactuals_per_choice", ABSENT, "'counterfactuals_per_choice': it is missing"),
    ("recoe", "sorting.json", "0", "row", "record 0"),
]
"""Benchmark, file, place of a value, the value that is put there, and what is said of it."""
UNREADABLE = [
    ("akew", "CounterFact.json", {"dataset": "counterfact"}, '[{"case_id": 1, "req', "is not valid JSON"),
    ("docter", DOCS, {}, "{", "not valid JSON"),
    ("docter", DOCS, {}, '{"data": 3}', "a list of records"),
    ("docter", DOCS, {}, "3", "a list"),
    ("elken", "test.json", {}, "{}", "a list of records .* expected, but it holds dict"),
    ("mquake", MQUAKE, {}, '[{"case_id": 1, "req', "is not valid JSON"),
    ("mquake", "prompts/rel-prompts.json", {"shots": "paper"}, "[", ""),
    ("mquake", "prompts/rel-prompts.json", {"shots": "paper"}, '{"P1": 3}', ""),
    ("recoe", "counting.json", {}, "[{", "or truncated.*git clone"),
    ("recoe", "counting.json", {}, "{}", "holds dict.*git clone"),
    ("recoe", "counting.json", {}, "3", "holds int.*git clone"),
    ("recoe", "counting.json", {}, "", "is not valid JSON.*git clone"),
]


def put(rows: Any, place: str, value: Any) -> None:
    """Set or remove the value at a place such as `0.questions.-1`."""
    *path, last = (int(step) if step.lstrip("-").isdigit() else step for step in place.split("."))
    inner = rows
    for step in path:
        inner = inner[step]
    if value is ABSENT:
        inner.pop(last)
    else:
        inner[last] = value(rows) if callable(value) else value


def first_cases(name: str, folder: Path, options: dict[str, str]) -> list[Any]:
    benchmark = load_benchmark(name, folder, options)
    return list(benchmark.cases(benchmark.settings[0]))


@pytest.mark.parametrize(("name", "options", "words"), BAD_OPTIONS)
def test_impossible_options_are_refused_with_the_remedy(name, options, words):
    with pytest.raises(BadSettings, match=words):
        load_benchmark(name, DATA / name, options)


@pytest.mark.parametrize(("name", "options", "setting", "limit", "words"), BAD_REQUESTS)
def test_impossible_requests_are_refused_before_the_first_case(name, options, setting, limit, words):
    benchmark = load_benchmark(name, DATA / name, options)
    with pytest.raises(BadSettings, match=words):
        benchmark.cases(setting or benchmark.settings[0], limit)


@pytest.mark.parametrize(("name", "options", "words"), MISSING)
def test_a_missing_file_is_named_with_the_way_to_get_it(name, options, words, tmp_path):
    with pytest.raises(MissingData, match=re.compile(words, re.DOTALL)):
        load_benchmark(name, tmp_path, options)


@pytest.mark.parametrize(("setting", "file"), [("doc", DOCS), ("gold", "gold_facts.json")])
def test_a_file_that_one_setting_needs_is_named_before_any_case(setting, file, tmp_path):
    folder = Path(shutil.copytree(DATA / "docter", tmp_path / "docter"))
    (folder / file).unlink()
    benchmark = load_benchmark("docter", folder)
    with pytest.raises(MissingData, match=file):
        benchmark.cases(setting)
    assert benchmark.provenance["cases"] == 3


def test_missing_prompts_are_named(tmp_path):
    folder = Path(shutil.copytree(DATA / "mquake", tmp_path / "mquake"))
    (folder / "prompts" / "rel-prompts.json").unlink()
    with pytest.raises(MissingData, match="prompts/rel-prompts.json"):
        load_benchmark("mquake", folder, {"shots": "paper"})


@pytest.mark.parametrize(("name", "file", "place", "value", "words"), BAD_RECORDS)
def test_a_malformed_record_is_named_by_file_record_field_and_value(name, file, place, value, words, tmp_path):
    folder = damaged(Loader(name, file, ""), tmp_path, lambda rows: put(rows, place, value))
    with pytest.raises(BadData, match=words) as caught:
        first_cases(name, folder, {"dataset": "flat"} if file == "counterfact-edit.json" else {})
    assert (file in str(caught.value)) or "has no record" in words


@pytest.mark.parametrize(("name", "file", "options", "content", "words"), UNREADABLE)
def test_a_file_that_holds_no_records_is_named(name, file, options, content, words, tmp_path):
    folder = Path(shutil.copytree(DATA / name, tmp_path / name))
    (folder / file).write_text(content)
    with pytest.raises(BadData, match=f"{Path(file).name}.*{words}"):
        first_cases(name, folder, options)


def test_without_a_folder_the_environment_names_it_and_a_missing_one_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("EMEND_DATA", str(DATA))
    assert len(list(load_benchmark("docter").cases("doc"))) == 3
    with pytest.raises(MissingData, match="nowhere"):
        load_benchmark("docter", tmp_path / "nowhere")


def test_elkens_test_file_that_is_cut_off_is_told_with_where_the_whole_one_is(tmp_path):
    folder = Path(shutil.copytree(DATA / "elken", tmp_path / "elken"))
    path = folder / "test.json"
    path.write_text(path.read_text()[:-200])
    with pytest.raises(BadData, match=r"test\.json .*cut off.*serac/output/tendency"):
        load_benchmark("elken", folder).cases("event")


def test_a_reasoning_file_with_one_label_only_is_refused(tmp_path):
    loader = Loader("docter", "reasoning_eval.json", "label")
    folder = damaged(loader, tmp_path, lambda rows: [row.update(label="True") for row in rows])
    with pytest.raises(BadData, match=r"reasoning_eval\.json, records 0 to 2, field 'label'.*value 'True'.*whole file"):
        load_benchmark("docter", folder).cases("doc")
    assert list(load_benchmark("docter", folder, {"blocks": "edit_success,locality"}).cases("doc"))


def test_a_run_on_a_damaged_file_ends_with_one_line_and_leaves_what_was_there(tmp_path, capsys, monkeypatch):
    loader = LOADERS[3]
    folder, out = damaged(loader, tmp_path, lambda rows: rows[1].pop("src")), tmp_path / "run"
    command = ["emend", "run", "--benchmark", "docter", "--data", str(folder), "--editor", "unedited"]
    monkeypatch.setattr("sys.argv", [*command, "--model", "tests.evals.toys:ScriptedModel", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "en_doc.json, record 1, field 'src': it is missing" in " ".join(told.split())
    assert json.loads((folder / "en_doc.json").read_text())["data"]
