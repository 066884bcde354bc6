"""DocTER made anew from a file in CounterFact's form, with a provider on loopback, and run as DocTER is."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import apply_review, build
from emend.evals.construction.estimate import estimate_build
from emend.evals.construction.sources.docter import NumberedItem, balanced_questions, read_source
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.docter_samples import sample
from emend.memory.errors import BadData, BadSettings
from tests.evals import command_line
from tests.evals.construction.authors import label
from tests.params import mostly_slow
from tests.provider.protocols import Asked
from tests.provider.server import Provider

TOWNS = ("Pellgate", "Orsa Bay", "Tarn", "Brenholm", "Vesk Mills", "Halden")
NEW, OLD = ("Manila", "Oslo", "Accra", "Quito", "Hanoi", "Riga"), ("Lima", "Kyiv", "Dakar", "Doha", "Bern", "Sofia")


def rows(count: int = 6) -> list[dict[str, Any]]:
    return [
        {
            "case_id": 10 + place,
            "requested_rewrite": {
                "prompt": "The twin city of {} is",
                "relation_id": "P190",
                "subject": TOWNS[place],
                "target_new": {"str": NEW[place], "id": f"Q{place}"},
                "target_true": {"str": OLD[place], "id": f"Q9{place}"},
            },
            "paraphrase_prompts": [f"It rained. {TOWNS[place]} is paired with"],
            "neighborhood_prompts": [f"The twin city of Upper {TOWNS[place]} is"],
        }
        for place in range(count)
    ]


def write_source(folder: Path, content: Any = None, name: str = "counterfact.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(content or rows()))
    return file


def reply_well(asked: Asked) -> str:
    """Usual replies; a question is answered by yes if its knowledge is about the new object."""
    if "Is the answer to the question yes" in asked.prompt:
        asks_old = any(f" {old} is known to" in asked.prompt.rpartition("Sentences:")[2] for old in OLD)
        return str(not asks_old)
    return sample(asked.prompt)


def config(provider: Provider, source: Path, **fields: Any) -> BuildConfig:
    models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
    return BuildConfig.model_validate({"source": str(source), **models, **fields})


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((folder / name).read_bytes())["data"]
    return data


@pytest.mark.slow
def test_the_folder_is_docter_with_documents_of_its_own(tmp_path: Path):
    with Provider(reply_well) as provider:
        card = build("docter", config(provider, write_source(tmp_path)), tmp_path / "out")
    assert card.items == 6 and card.kept_share.mean == 1
    run(RunConfig(benchmark=str(tmp_path / "out"), editors=("in_context",), settings=("doc", "gold"), model="tiny"),
        tmp_path / "run")  # fmt: skip
    counts = {(row.setting, row.metric): row.n + row.unscored for row in report(tmp_path / "run").rows}
    for setting in ("doc", "gold"):
        assert [counts[setting, name] for name in ("ES", "PS", "NS", "Acc")] == [6, 6, 6, 6]


def test_questions_are_balanced_and_joined_with_their_documents(tmp_path: Path):
    with Provider(reply_well) as provider:
        build("docter", config(provider, write_source(tmp_path)), tmp_path / "out")
    questions = table(tmp_path / "out", "reasoning_eval.json")
    assert [each["label"] for each in questions] == ["True", "False"] * 3
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    probes = [(case.edits[0].subject, probe) for case in benchmark.cases("gold") for probe in case.probes]
    asked = [(subject, probe.query) for subject, probe in probes if probe.kind == "reasoning"]
    assert len(asked) == 6 and all(subject in question for subject, question in asked)


@pytest.mark.parametrize("language", mostly_slow(["en", "zh", "de"], "en"))
def test_the_calls_estimated_are_those_sent(tmp_path: Path, language: str):
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        fields = config(provider, write_source(tmp_path), language=language)
        estimate = estimate_build("docter", fields)
        assert provider.count == 0
        build("docter", fields, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        messages = [message["content"] for body in sent for message in body["messages"]]
        assert role.calls == len(sent) > 0
        if language == "en":  # otherwise the schema of the translation is sent and counted too
            assert role.input_tokens == pytest.approx(sum(map(len, messages)) / 4 + 4 * len(messages), rel=0.1)


def test_chinese_documents_are_asked_by_english_queries(tmp_path: Path):
    with Provider(reply_well) as provider:
        card = build("docter", config(provider, write_source(tmp_path), language="zh"), tmp_path / "out")
    assert card.content.options == {"blocks": "cross_zh_en"}
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    case = next(iter(benchmark.cases("doc")))
    assert case.edits[0].language == "zh" and "新闻发布会" in case.edits[0].text
    assert case.probes[0].prompt == "The twin city of Pellgate is" and case.probes[0].gold == ("Manila",)
    assert table(tmp_path / "out", "cross_zh_eval.json")[0]["query"][0].startswith("据本报记者")


def test_documents_in_any_other_language_are_a_file_of_facts(tmp_path: Path):
    with Provider(reply_well) as provider:
        card = build("docter", config(provider, write_source(tmp_path), language="de"), tmp_path / "out")
    assert card.content.benchmark == "facts"
    benchmark, settings = load_benchmark(str(tmp_path / "out"), None, {})
    case = next(iter(benchmark.cases(settings[0])))
    assert "Dienstag" in case.edits[0].text and case.probes[0].gold == ("Manila",) and case.probes[0].rival == "Lima"


def test_english_documents_are_asked_by_chinese_queries(tmp_path: Path):
    with Provider(reply_well) as provider:
        card = build("docter", config(provider, write_source(tmp_path), queries="zh"), tmp_path / "out")
    assert card.content.options == {"blocks": "cross_en_zh"}
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    case = next(iter(benchmark.cases("doc")))
    assert case.edits[0].language == "en" and "The twin city of Pellgate is Manila" in case.edits[0].text
    assert case.probes[0].prompt.startswith("据本报记者") and case.probes[0].kind == "cross_lingual"


@pytest.mark.parametrize(
    ("language", "queries", "document"),
    [("de", "en", "Dienstag"), ("en", "de", "The twin city of Pellgate is Manila"), ("de", "de", "Dienstag")],
)
def test_documents_and_queries_in_two_languages_are_a_file_of_facts(
    tmp_path: Path, language: str, queries: str, document: str
):
    with Provider(reply_well) as provider:
        fields = config(provider, write_source(tmp_path), language=language, queries=queries)
        card = build("docter", fields, tmp_path / "out")
    assert card.content.benchmark == "facts"
    benchmark, settings = load_benchmark(str(tmp_path / "out"), None, {})
    case = next(iter(benchmark.cases(settings[0])))
    assert document in case.edits[0].text
    assert case.probes[0].prompt.startswith("The twin city") == (queries == "en")


def test_two_languages_without_english_are_refused_with_what_can_be_given(tmp_path: Path):
    with Provider(reply_well) as provider, pytest.raises(BadSettings, match="--queries en"):
        config(provider, write_source(tmp_path), language="de", queries="zh")


def test_a_source_in_easyedits_form_or_as_facts_gives_the_same_items(tmp_path: Path):
    flat = [
        {
            "case_id": 1, "subject": "Tarn", "prompt": "The twin city of Tarn is", "target_new": "Accra",
            "ground_truth": "Dakar", "rephrase_prompt": "It rained. Tarn is paired with",
            "locality_prompt": "The twin city of Upper Tarn is", "locality_ground_truth": "Dakar",
        }
    ]  # fmt: skip
    fact = {
        "subject": "Tarn", "prompt": "The twin city of {} is", "object": "Accra", "old_answer": "Dakar",
        "paraphrases": ["It rained. Tarn is paired with"],
        "locality": [{"question": "The twin city of Upper Tarn is", "answer": "Dakar"}],
    }  # fmt: skip
    sources = (
        write_source(tmp_path, [rows()[2]]),
        write_source(tmp_path, flat, "flat.json"),
        write_source(tmp_path, [fact], "facts.json"),
    )
    first, *others = [next(read_source(str(source))[0]).fields for source in sources]
    assert others == [first, first] and first["short_paraphrases"] == ["Tarn is paired with"]


def test_facts_without_an_old_answer_and_repeated_clozes_are_left_out_and_counted(tmp_path: Path):
    fact = {"subject": "Tarn", "prompt": "The twin city of {} is", "object": "Accra"}
    items, notes = read_source(str(write_source(tmp_path, [fact, *2 * [fact | {"old_answer": "Lima"}]], "facts.json")))
    assert len(list(items)) == 1 and list(notes.left_out.values()) == [1, 1]


def test_a_benchmarks_name_and_a_damaged_row_are_refused(tmp_path: Path):
    with pytest.raises(BadSettings, match="--from"):
        read_source("counterfact")
    broken = rows(1)
    del broken[0]["requested_rewrite"]["target_true"]
    with pytest.raises(BadData, match="target_true"):
        list(read_source(str(write_source(tmp_path, broken)))[0])


def test_surplus_questions_of_the_commoner_answer_are_left():
    labels = ("True", "True", "False", "True")
    items = [NumberedItem(2 * n, {}, {"reasoning": {"label": label}}) for n, label in enumerate(labels, 1)]
    assert [(each["id"], each["label"]) for each in balanced_questions(items)] == [(2, "True"), (5, "False")]
    assert list(balanced_questions([NumberedItem(2, {}, {"reasoning": None})])) == []


def test_without_two_answers_no_questions_are_asked(tmp_path: Path):
    with Provider(reply_well) as provider:
        card = build("docter", config(provider, write_source(tmp_path), limit=1), tmp_path / "out")
    assert card.content.options == {"blocks": "edit_success,locality"}
    assert load_benchmark(str(tmp_path / "out"), None, {})[0].cases("doc")


def test_people_who_reject_a_question_keep_its_document(tmp_path: Path):
    with Provider(reply_well) as provider:
        build("docter", config(provider, write_source(tmp_path), recipe="paper"), tmp_path / "out")
    sheets, words = tmp_path / "sheets", ("--study", "build-docter", "--annotators", "1")
    assert command_line.emend("judge", "annotate", str(tmp_path / "out" / "run"), *words, "--out", str(sheets)) == 0
    label(sheets / "annotator-1.csv")
    with pytest.raises(BadData, match="keep_question"):
        apply_review(tmp_path / "out", sheets)
    label(sheets / "annotator-1.csv", "no", 6, column="keep_question")
    card = apply_review(tmp_path / "out", sheets)
    documents = json.loads((tmp_path / "out" / "en_doc.json").read_bytes())["data"]
    assert len(documents) == 6 and card.dropped == {"question alone, by reviewers": 6}
    assert "reasoning" not in card.content.options["blocks"]


def test_sheets_for_questions_apart_are_refused_where_no_item_has_one(tmp_path: Path):
    from tests.evals.construction.test_build import built

    _, folder = built(tmp_path, recipe="paper")
    words = ("--study", "build-docter", "--annotators", "1", "--out", str(tmp_path / "sheets"))
    assert command_line.emend("judge", "annotate", str(folder / "run"), *words) == 0
    label(tmp_path / "sheets" / "annotator-1.csv")
    with pytest.raises(BadData, match="--study build"):
        apply_review(folder, tmp_path / "sheets")
