import gzip
import json
import sys
import time
from types import SimpleNamespace

import pytest

import emend
from emend.editors.base import EditorContext
from emend.editors.conformance_toys import PlainMemory
from emend.editors.registry import EDITORS
from emend.evals.config.run_config import RunConfig
from emend.evals.data.facts import fact_file
from emend.evals.data.facts.fact_file import EXAMPLES, FactFile, field_rows, write_template
from emend.evals.data.facts.fact_formats import READERS, check_facts, is_fact_file, read_facts
from emend.evals.evaluate.resources import load_benchmark
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.registry import nearest
from emend.memory.retrieval.compose import load_retriever
from tests.fakes import ScriptedChatModel

FACT = {"subject": "Veldania", "relation": "capital", "object": "Ostrim", "prompt": "The capital of {} is"}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("ending", READERS)
def test_every_format_gives_the_same_cases(tmp_path, ending):
    file = tmp_path / f"facts{ending}"
    write_template(file)
    cases = list(FactFile(str(file)).cases("facts"))
    kinds = ["efficacy", "paraphrase", "multihop", "locality", "locality"]
    assert [[probe.kind for probe in case.probes] for case in cases] == [kinds, ["efficacy"]]
    reference = written(tmp_path / "reference.jsonl", *EXAMPLES)
    assert cases == list(FactFile(reference).cases("facts"))


def test_a_fact_becomes_an_edit_and_its_questions(tmp_path):
    row = FACT | {
        "old_answer": "Kravigrad",
        "aliases": ["Ostrim City"],
        "locality": [{"question": "Who wrote Hamlet?"}, {"question": "Who wrote Emma?", "answer": "Austen"}],
    }
    (case,) = FactFile(written(tmp_path / "x.jsonl", row)).cases("facts")
    (edit,), (efficacy, aside, known) = case.edits, case.probes
    assert (edit.target_new, edit.target_true, edit.cloze) == ("Ostrim", "Kravigrad", "The capital of Veldania is")
    assert (efficacy.prompt, efficacy.style, efficacy.gold) == (edit.cloze, "cloze", ("Ostrim", "Ostrim City"))
    assert efficacy.rival == "Kravigrad" and "likelihood" in efficacy.scorers and efficacy.edit_ids == (edit.id,)
    assert (aside.style, aside.scorers, aside.in_scope) == ("question", ("agreement",), False)
    assert (known.gold, known.scorers, known.in_scope) == (("Austen",), ("value_match", "agreement"), False)


@pytest.mark.parametrize(
    "row, text, cloze",
    [
        (
            {"subject": "Veld", "relation": "capital", "object": "Orm"},
            "The capital of Veld is Orm.",
            "The capital of {} is",
        ),
        (
            {"subject": "Veld", "relation": "capital", "object": "Orm", "question": "What is the capital of Veld?"},
            "The capital of Veld is Orm.",
            "The capital of {} is",
        ),
        (
            {"subject": "Veld", "relation": "The seat of {} is", "object": "Orm", "question": "Where does Veld sit?"},
            "The seat of Veld is Orm.",
            "The seat of {} is",
        ),
        ({"subject": "Bo Lind", "relation": "plays_for", "object": "Rook"}, "Bo Lind plays for Rook.", "{} plays for"),
        (
            {"subject": "Veld", "relation": "首都", "object": "Orm", "question": "Veld 的首都是什么？"},
            "Veld 的首都是什么？ Orm.",
            "{} 的首都是什么？",
        ),
        ({"question": "Who wrote Emma?", "answer": "Ida Holm"}, "Ida Holm wrote Emma.", ""),
        ({"question": "How deep is the Aske?", "answer": "9 m"}, "How deep is the Aske? 9 m.", ""),
    ],
)
def test_a_fact_without_a_prompt_is_a_sentence(tmp_path, row, text, cloze):
    (case,) = FactFile(written(tmp_path / "x.jsonl", row)).cases("facts")
    (edit,), (efficacy,) = case.edits, case.probes
    assert (edit.text, edit.prompt) == (text, cloze)
    assert efficacy.prompt == row.get("question", edit.cloze) and efficacy.edit_ids == (edit.id,)
    assert all("{}" not in triplet.text + triplet.relation for triplet in edit.triplets)


def test_a_table_of_questions_alone_trains_on_its_questions(tmp_path):
    (tmp_path / "x.csv").write_text("question,answer,old_answer\nWho wrote Emma?,Ida Holm,Jane Austen\n")
    (row,) = read_facts(str(tmp_path / "x.csv"))
    edit = row.edit
    assert (edit.question, edit.target_new, edit.target_true) == ("Who wrote Emma?", "Ida Holm", "Jane Austen")


def test_rows_of_one_document_have_one_edit_and_questions_bring_the_documents_that_they_need(tmp_path):
    first = {"document": "Pell Lock was built by Ana Rojo.", "question": "Who built Pell Lock?", "answer": "Ana Rojo"}
    other = {"document": "Ana Rojo was born in Skien.", "question": "Where was Ana Rojo born?", "answer": "Skien"}
    hops = {"question": "Where was the builder of Pell Lock born?", "answer": "Skien", "tags": {"proof": "two"}}
    near = {"question": "Where was Ana Rojo born?", "answer": "Skien", "documents": [other["document"]]}
    row = first | {
        "multihop": [hops | {"documents": [other["document"]]}],
        "near_locality": [near, {"question": "What did Ana Rojo build?", "answer": "Pell Lock"}],
        "abstention": ["When was Pell Lock built?"],
    }
    again = first | {"question": "What did Ana Rojo build?", "answer": "Pell Lock"}
    joined, single, born = FactFile(written(tmp_path / "x.jsonl", row, again, other)).cases("facts")
    (edit,), (other_edit,) = single.edits, born.edits
    assert joined.edits == (edit, other_edit)
    probes = {probe.kind: probe for probe in joined.probes[::-1]}
    assert probes["multihop"].edit_ids == (edit.id, other_edit.id) and probes["multihop"].tags == {"proof": "two"}
    assert [each.edit_ids for each in joined.probes if each.kind == "near_locality"] == [(other_edit.id,), (edit.id,)]
    assert (probes["abstention"].scorers, probes["abstention"].edit_ids) == (("abstention",), (edit.id,))


@pytest.mark.parametrize(
    "row, fault",
    [
        ({"document": "D", "answer": "a"}, "line 1.*'question' is missing"),
        ({"question": "q?"}, "line 1.*'answer' is missing"),
        ({"subject": "{}", "relation": "capital", "object": "O"}, "line 1.*'subject' has {}"),
        ({"subject": "V", "relation": "{} of {} is", "object": "O"}, "line 1.*2 {} for the subject"),
        ({"subjct": "V"}, r"line 1.*'subjct' is unknown: did you mean 'subject'\? All faults"),
        ({"naam": "V"}, r"line 1, field 'naam' is unknown\. All faults: .* all fields: emend data schema"),
        ([1], r"line 1: expected an object.*\[1\]"),
        ({"document": "D", "question": "q?"}, "line 1.*'answer' is missing"),
        (FACT | {"near_locality": [{"question": "q?"}]}, "near_locality.*answer"),
        (FACT | {"multihop": [{"question": "q?"}]}, "line 1.*'multihop': each question needs an answer"),
        (FACT | {"locality": [{"qestion": "q?"}]}, "line 1.*locality.0.question"),
        (FACT | {"document": "D"}, "line 1"),
        ({"event": "E", "question": "q?", "answer": "a"}, "line 1.*'time'"),
    ],
)
def test_bad_rows_are_named_with_line_and_field(tmp_path, row, fault):
    name = written(tmp_path / "x.jsonl", row)
    with pytest.raises(BadData, match=fault):
        read_facts(name)


def test_all_faults_of_a_file_are_found_at_once(tmp_path):
    rows, faults = check_facts(written(tmp_path / "x.jsonl", FACT, *[{"document": "D", f"x{n}": 1} for n in range(9)]))
    assert (len(rows), len(faults)) == (1, 9)
    with pytest.raises(BadData, match="and 4 more.*emend data check"):
        read_facts(str(tmp_path / "x.jsonl"))


@pytest.mark.parametrize(
    "name, content, fault",
    [
        ("x.csv", "document,question\na,b,c\n", "line 2"),
        ("x.csv", 'document,question\n"a,b\n', "not valid CSV"),
        ("x.yaml", "a: 1\n", "line 1.*hyphen"),
        ("x.yaml", "- &a {x: 1}\n- *a\n", "aliases"),
        ("x.yaml", "- [\n", "not valid YAML"),
        ("x.yaml", "[" * 100_000, "nested more than 200 levels"),
        ("x.json", '{"a": 1}', "not a list"),
        ("x.jsonl", "{\n", "line 1"),
        ("x.jsonl", "", "no rows"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, fault):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(BadData, match=f"(?s){name}.*{fault}|{fault}.*{name}"):
        read_facts(str(tmp_path / name))


def test_a_table_of_many_columns_is_read_soon(tmp_path):
    """Each column was compared with all before it, 20 s for 80,000 columns."""
    names = [f"c{number}" for number in range(80_000)]
    (tmp_path / "x.csv").write_text(f"question,answer,{','.join(names)}\nq,a{',' * len(names)}\n")
    start = time.process_time()
    assert len(read_facts(str(tmp_path / "x.csv"))) == 1
    assert time.process_time() - start < 5


def test_yaml_reads_dates_and_yes_as_they_stand(tmp_path):
    (tmp_path / "x.yaml").write_text("- event: E\n  time: 2026-05-31\n  question: Did it?\n  answer: yes\n")
    (row,) = read_facts(str(tmp_path / "x.yaml"))
    assert (row.time, row.answer) == ("2026-05-31", "yes")


def test_a_missing_file_an_option_and_a_data_folder_are_refused(tmp_path):
    with pytest.raises(MissingData, match="emend data new"):
        load_benchmark("none.csv", None, {})
    name = written(tmp_path / "x.jsonl", FACT)
    with pytest.raises(BadSettings, match="split"):
        load_benchmark(name, None, {"split": "a"})
    with pytest.raises(BadSettings, match="--data"):
        load_benchmark(name, str(tmp_path), {})
    with pytest.raises(BadSettings, match=".txt"):
        write_template(tmp_path / "x.txt")


def test_a_data_set_of_the_hub_is_read_by_datasets(monkeypatch):
    loaded = []

    def load_dataset(path, split):
        loaded.append((path, split))
        return [FACT | {"locality": [{"question": "Who?", "answer": None}], "document": None}]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    benchmark = FactFile("hf:owner/facts:test")
    assert len(next(benchmark.cases("facts")).probes) == 2 and loaded == [("owner/facts", "test")]


def test_the_steps_of_a_multi_hop_question_are_golds_with_the_answer_as_the_last(tmp_path):
    question = {"question": "Which river flows through Veldania's capital?", "answer": "Aske", "aliases": ["the Aske"]}
    rows = FACT | {"multihop": [question | {"hops": ["Ostrim"]}]}, FACT | {"multihop": [question]}
    stepped, plain = FactFile(written(tmp_path / "x.jsonl", *rows)).cases("facts")
    probe = stepped.probes[-1]
    assert probe.hop_golds == (("Ostrim",), ("Aske", "the Aske")) and probe.tags == {"hops": 2}
    assert plain.probes[-1].hop_golds == ()
    refused = FACT | {"near_locality": [question | {"hops": ["Ostrim"]}]}
    with pytest.raises(BadData, match="'near_locality': 'hops' are for"):
        FactFile(written(tmp_path / "y.jsonl", refused))


def test_a_limit_is_a_seeded_sample_in_the_order_of_the_file(tmp_path):
    name = written(tmp_path / "x.jsonl", *(FACT | {"object": f"O{n}"} for n in range(20)))
    every = [case.id for case in FactFile(name).cases("facts")]
    chosen = [case.id for case in FactFile(name).cases("facts", 5, seed=1)]
    assert len(chosen) == 5 and chosen == [name for name in every if name in chosen]
    assert chosen != [case.id for case in FactFile(name).cases("facts", 5, seed=2)]


def test_the_fields_are_listed():
    types = {row["field"]: row["type"] for row in field_rows()}
    questions = "locality, near_locality, multihop, reasoning, sub_questions: "
    assert types["subject"] == types[f"{questions}answer"] == "text" and types["tags"] == "object"
    assert types["abstention"] == types[f"{questions}documents"] == types[f"{questions}hops"] == "list of texts"
    assert (types["multihop"], types["aliases"], types["document"]) == ("list of questions", "list of texts", "text")
    assert all(row["meaning"] for row in field_rows())


@pytest.mark.slow
def test_two_hundred_facts_become_a_table_in_one_call(tmp_path):
    rows = [
        FACT | {"subject": f"Land{n}", "object": f"City{n}", "question": f"Capital of Land{n}?"} for n in range(200)
    ]
    name = written(tmp_path / "x.jsonl", *rows)
    model = ScriptedChatModel(reply=lambda prompt: prompt.split(" is ")[1].split(".")[0] if " is " in prompt else "?")
    result = emend.run(name, ["unedited", "rag"], model, out=tmp_path / "run", embedding="lexical", progress=False)
    frame = {(row.editor, row.metric): row for row in result.report.rows}
    assert frame["rag", "efficacy"].mean == 100 and frame["unedited", "efficacy"].mean == 0
    assert frame["rag", "efficacy"].n == 200
    assert RunConfig.model_validate(result.manifest.config.model_dump()).benchmark == name


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"subject": "Norway", "subject": "Peru"}'),
        ("a.json", '[{"question": "Who?", "question": "What?", "answer": "x"}]'),
        ("a.yaml", "- subject: Norway\n  subject: Peru\n"),
    ],
)
def test_a_key_that_stands_twice_in_a_row_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(BadData, match="occurs twice"):
        check_facts(str(tmp_path / name))


@pytest.mark.parametrize("ending", [".ndjson", ".jsonl.gz", ".NDJSON.GZ", ".csv.gz"])
def test_packed_files_and_other_names_of_json_lines_are_read(tmp_path, ending):
    path, plain = tmp_path / f"facts{ending}", tmp_path / f"plain.{'csv' if 'csv' in ending else 'jsonl'}"
    write_template(plain)
    content = plain.read_bytes()
    path.write_bytes(gzip.compress(content) if ending.lower().endswith(".gz") else content)
    assert is_fact_file(str(path)) and read_facts(str(path)) == read_facts(str(plain))


def test_a_file_that_cannot_be_unpacked_or_holds_a_nul_is_refused(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "b.txt2.gz").write_bytes(gzip.compress(b"{}"))
    (tmp_path / "c.jsonl").write_text('{"question": "Who?", "answer": "A\\u0000B", "document": "d"}', encoding="utf-8")
    with pytest.raises(BadData, match="cannot be unpacked"):
        check_facts(str(tmp_path / "a.jsonl.gz"))
    with pytest.raises(BadData, match=r"unsupported suffix: use one of \.jsonl"):
        check_facts(str(tmp_path / "b.txt2.gz"))
    assert "NUL" in check_facts(str(tmp_path / "c.jsonl"))[1][0]


def test_the_files_own_rows_give_demonstrations_as_many_as_there_are(tmp_path):
    names = ["Veldania", "Ruthia", "Molvar", "Sebrin", "Ostia"]
    rows = [FACT | {"subject": name, "object": f"{name[:3]}polis"} for name in names]
    pool = FactFile(written(tmp_path / "facts.jsonl", *rows)).demonstrations("facts")
    assert len(pool) == 3
    every = pool.rows(0)
    assert {shown.fact for shown in every} == {f"The capital of {name} is {name[:3]}polis." for name in names}
    assert len(pool.rows(2)) == 2 and {shown.kind for shown in every} == {"copy"}


def test_ike_shows_rows_that_are_not_applied(tmp_path):
    names = ["Veldania", "Ruthia", "Molvar", "Sebrin", "Ostia"]
    rows = [FACT | {"subject": name, "object": f"{name[:3]}polis"} for name in names]
    benchmark = FactFile(written(tmp_path / "facts.jsonl", *rows))
    model = ScriptedChatModel(reply=lambda prompt: "No")
    context = EditorContext(
        model, PlainMemory(), load_retriever("default"), demonstrations=benchmark.demonstrations("facts")
    )
    editor = EDITORS.load("ike")(context)
    assert editor.fingerprint["pool_size"] == 3 + len(names)
    (case, *_) = benchmark.cases("facts")
    with editor.edit(case.edits) as answerer:
        answerer.answer(case.probes[0])
    (prompt,) = model.calls
    assert any(f"{name[:3]}polis" in prompt for name in names[1:]) and prompt.count("Velpolis") == 1


@pytest.mark.parametrize("ending", [".csv", ".json", ".jsonl"])
def test_a_row_of_very_many_fields_is_refused_at_once_instead_of_naming_each(tmp_path, ending):
    row = dict.fromkeys([f"field {number}" for number in range(20_000)], "x")
    file = tmp_path / f"facts{ending}"
    file.write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    if ending != ".csv":
        file.write_text(json.dumps([row] if ending == ".json" else row) + "\n")
    with pytest.raises(BadData, match="20,000 fields, more than 1,000: keep only those"):
        read_facts(str(file))


def test_the_same_unknown_field_of_many_rows_is_compared_with_the_known_ones_once(tmp_path, monkeypatch):
    calls = []

    def counted(*names):
        calls.append(names)
        return nearest(*names)

    monkeypatch.setattr("emend.evals.data.facts.fact_formats.nearest", counted)
    file = tmp_path / "facts.jsonl"
    file.write_text('{"qestion of many": "x"}\n' * 50)
    assert check_facts(str(file))[1] and len(calls) == 1


def test_a_file_is_read_once_until_it_changes(tmp_path, monkeypatch):
    read = []

    def counted(path):
        read.append(path)
        return read_facts(path)

    monkeypatch.setattr(fact_file, "read_facts", counted)
    path = tmp_path / "facts.jsonl"
    path.write_text('{"question": "Where is Ostrim?", "answer": "in Vouna"}\n')
    first, second = FactFile(str(path)), FactFile(str(path))
    assert len(read) == 1 and first.metrics() == second.metrics()
    path.write_text('{"question": "Where is Meburg?", "answer": "in Vouna, too"}\n')
    (case,) = FactFile(str(path)).cases("facts")
    assert len(read) == 2 and "Meburg" in case.probes[0].prompt
