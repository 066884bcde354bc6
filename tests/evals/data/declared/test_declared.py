"""A YAML file declares a benchmark; what is wrong in it or its rows is named by file, line and field."""

import json
from pathlib import Path

import pytest

from emend.evals.data.declared.benchmark import DeclaredBenchmark
from emend.evals.data.declared.description import is_declared
from emend.evals.data.declared.templates import MAX_LENGTH, fill, fill_all
from emend.evals.evaluate.resources import load_benchmark
from emend.memory.errors import BadData, BadSettings, MissingData

ROWS = [
    {
        "id": "a",
        "land": "Veldania",
        "city": "Ostrim",
        "names": ["Ostrim", "Ostrim City"],
        "asked": ["Where?", "Which?"],
    },
    {"id": "b", "land": "Orland", "city": "Port Lunden", "names": ["Port Lunden"], "asked": []},
]
TEXT = """rows: rows.jsonl
edit:
  text: "The capital of {land} is {city}."
  prompt: "The capital of {} is"
  subject: "{land}"
  relation: capital
  target_new: "{city}"
probes:
  efficacy:
    prompt: "What is the capital of {land}?"
    gold: "{names}"
    scorers: [exact_match, contains]
  paraphrase:
    for_each: asked
    prompt: "{item}"
    gold: "{city}"
  locality:
    only_with: aside
    prompt: "{aside.q}"
    gold: "{aside.a}"
    in_scope: false
    scorers: [agreement]
"""


def write(folder: Path, text: str = TEXT, rows=ROWS) -> str:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return str(folder / "mine.yaml")


def test_a_row_is_a_case_with_its_edit_and_probes(tmp_path):
    benchmark, settings = load_benchmark(write(tmp_path), None, {})
    first, second = benchmark.cases(settings[0])
    assert (first.id, second.id) == ("a", "b")
    assert first.edits[0].cloze == "The capital of Veldania is" and first.edits[0].triplets[0].object == "Ostrim"
    assert [(probe.kind, probe.prompt) for probe in first.probes] == [
        ("efficacy", "What is the capital of Veldania?"),
        ("paraphrase", "Where?"),
        ("paraphrase", "Which?"),
    ]
    assert first.probes[0].gold == ("Ostrim", "Ostrim City") and first.probes[0].edit_ids == (first.edits[0].id,)
    assert len(second.probes) == 1


def test_a_probe_that_is_out_of_scope_names_no_edit(tmp_path):
    rows = [ROWS[0] | {"aside": {"q": "Who wrote Hamlet?", "a": "Shakespeare"}}]
    (case,) = DeclaredBenchmark(write(tmp_path, rows=rows)).cases("triplet")
    assert case.probes[-1].kind == "locality" and case.probes[-1].edit_ids == ()


def test_metrics_are_the_outputs_of_the_scorers_by_kind(tmp_path):
    metrics = DeclaredBenchmark(write(tmp_path)).metrics()
    assert [(metric.name, metric.value, metric.kinds) for metric in metrics] == [
        ("efficacy", "em", ("efficacy",)),
        ("efficacy contains", "contains", ("efficacy",)),
        ("paraphrase", "em", ("paraphrase",)),
        ("locality", "agreement", ("locality",)),
    ]


def test_a_list_of_facts_in_yaml_is_no_declared_benchmark(tmp_path):
    (tmp_path / "facts.yaml").write_text("- subject: Veldania\n  object: Ostrim\n", encoding="utf-8")
    assert not is_declared(str(tmp_path / "facts.yaml")) and is_declared(write(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  subject:", "  subjekt:", r"mine.yaml, line 5: field 'edit.subjekt' is unknown: did you mean 'subject'"),
        ("    in_scope: false", "    in_scope: maybe", r"mine.yaml, line 21: field 'probes.locality.in_scope'"),
        ("probes:", "probs:", r"line 8: field 'probs' is unknown"),
        ("rows: rows.jsonl", "rows: ../rows.jsonl", r"line 1.*outside"),
        ("rows: rows.jsonl", "rows: /etc/hostname", r"line 1.*outside"),
        ("rows: rows.jsonl", 'rows: "a\\0b"', r"line 1.*NUL"),
        ('"{land}"', "&name x\n  question: *name", r"aliases"),
        ('"{city}"', "!!python/object/apply:os.system [x]", r"mine.yaml"),
        ("edit:", "rows: x\nedit:", r"line 2: the key 'rows' occurs twice"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_by_its_line(tmp_path, old, new, message):
    with pytest.raises(BadData, match=message):
        list(DeclaredBenchmark(write(tmp_path, TEXT.replace(old, new, 1))).cases("triplet"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"land": "Orland", "citi": "x"}],
            r"line 1: no field 'city': did you mean 'citi'. \(mine.yaml, line 2",
        ),
        ([ROWS[0] | {"asked": "x"}], r"line 1: 'asked' is not a list \(mine.yaml, line 14"),
        ([ROWS[0] | {"land": {"a": 1}}], r"field 'land' is"),
        ([ROWS[0] | {"names": [""]}], r"gold answer of 'efficacy' is empty"),
    ],
)
def test_what_is_wrong_in_a_row_is_named_by_row_and_template(tmp_path, rows, message):
    benchmark = DeclaredBenchmark(write(tmp_path, rows=rows))
    with pytest.raises(BadData, match=message):
        list(benchmark.cases("triplet"))
    assert len(benchmark.check().faults) == 1


def test_options_data_and_absent_rows_are_refused(tmp_path):
    path = write(tmp_path)
    with pytest.raises(BadSettings):
        DeclaredBenchmark(path, options={"split": "x"})
    with pytest.raises(BadSettings, match="--data"):
        DeclaredBenchmark(path, tmp_path)
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(MissingData, match="line 1"):
        list(DeclaredBenchmark(path).cases("triplet"))


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_rows_may_be_a_table(tmp_path, name):
    import duckdb

    path = tmp_path / name
    with duckdb.connect() as connection:
        values = "SELECT 'Veldania' AS land, 'Ostrim' AS city, 'Ostrim' AS names"
        form = "CSV, HEADER" if name.endswith("csv") else "PARQUET"
        connection.execute(f"COPY ({values}) TO '{path}' (FORMAT {form})")
    text = TEXT.replace("rows.jsonl", name).replace("for_each: asked", "only_with: asked").replace("{item}", "{land}")
    (case,) = DeclaredBenchmark(write(tmp_path, text)).cases("triplet")
    assert case.edits[0].text == "The capital of Veldania is Ostrim."


def test_templates_substitute_fields_and_nothing_else():
    fields = {"a": "x", "n": 3, "inner": {"b": "{a}"}, "long": "y" * (MAX_LENGTH // 2)}
    assert fill("{a} {} {{a}} {n} {inner.b}", fields) == "x {} {a} 3 {a}"
    assert fill_all("{a}", fields) == ("x",)
    for template in ("{a.__class__}", "{inner}", "{missing}", "{a!r:>9}", "{long}{long}{long}"):
        with pytest.raises(BadData):
            fill(template, fields)


def test_a_scorer_of_ones_own_in_the_file_is_imported_only_where_the_user_names_it(tmp_path):
    (tmp_path / "evil_scorer.py").write_text("raise SystemExit('ran')\n", encoding="utf-8")
    text = TEXT.replace("[exact_match, contains]", '["evil_scorer:Words"]')
    benchmark = DeclaredBenchmark(write(tmp_path, text))
    assert benchmark.check().faults == () and benchmark.foreign_scorers == ["evil_scorer:Words"]
    with pytest.raises(BadSettings, match="--trust evil_scorer:Words"):
        benchmark.metrics()
