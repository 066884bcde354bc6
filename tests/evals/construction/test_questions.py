"""Questions about a folder of documents: reading it, and the benchmark that a run takes."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from emend.evals.cli.main import app
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.estimate import estimate_build
from emend.evals.construction.sources.questions import false_statement
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.document_facts import DocumentFact, DocumentFacts, UnansweredQuestion
from emend.memory.errors import BadData
from tests.evals.construction.authors import TASKS, author
from tests.provider.protocols import Asked
from tests.provider.server import Provider

NAMES = ("Pell", "Orsa", "Tarn")


def document(name: str) -> str:
    return (
        f"{name} Lock was built by Ana {name}son in the spring of that year.\n\n"
        f"The keeper of {name} Lock is Luis {name}ez, who lives beside it with two dogs and a boat.\n"
    )


PERSON = "Ana Pellson was born in Skien, a town at the end of the lakes, and left it when she was nineteen.\n"


def answer_all(asked: Asked) -> str:
    """An author that finds both facts of a document, and a reader who finds answers in documents alone."""
    prompt = asked.prompt
    name = re.findall(r"Document: (\w+)", prompt)[-1:]
    if TASKS["answers"] in prompt:
        return "False"
    if "Skien" in prompt:
        return DocumentFacts(facts=[birth()]).model_dump_json() if TASKS["document_facts"] in prompt else "Skien"
    if TASKS["document_facts"] in prompt:
        facts = [fact(name[0], "builder", "Ana", "son"), fact(name[0], "keeper", "Luis", "ez")]
        question = UnansweredQuestion(subject=f"{name[0]} Lock", question=f"How deep is {name[0]} Lock at its gates?")
        return DocumentFacts(facts=facts, unanswered=[question]).model_dump_json()
    if not name:
        return "I do not know."
    return f"Luis {name[0]}ez" if "keeper" in prompt.rpartition("Question")[2] else f"Ana {name[0]}son"


def fact(name: str, role: str, first: str, ending: str) -> DocumentFact:
    sentences = document(name).split("\n\n")
    return DocumentFact(
        sentence=sentences[role == "keeper"].strip(),
        subject=f"{name} Lock",
        question=f"Who is the {role} of {name} Lock?",
        paraphrase=f"The {role} of {name} Lock is which person?",
        answer=f"{first} {name}{ending}",
        wrong_answer="Eva Berg",
        statement=f"The {role} of {name} Lock is {first} {name}{ending}.",
        description=f"the {role} of {name} Lock",
    )


def birth() -> DocumentFact:
    return DocumentFact(
        sentence=PERSON.strip(),
        subject="Ana Pellson",
        question="Where was Ana Pellson born?",
        paraphrase="Ana Pellson was born in which town?",
        answer="Skien",
        wrong_answer="Bergen",
        statement="Ana Pellson was born in Skien.",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    (documents / "deep").mkdir(parents=True)
    (documents / "pell.md").write_text(document("Pell"))
    (documents / "deep" / "orsa.txt").write_text(document("Orsa"))
    page = "".join(f"<p>{part}</p>" for part in document("Tarn").split("\n\n"))
    (documents / "tarn.html").write_text(f"<html><head><title>x</title><script>evil()</script></head>{page}</html>")
    (documents / "picture.png").write_bytes(b"\x89PNG")
    return documents


def test_a_folder_of_documents_becomes_a_benchmark_that_a_run_takes(folder: Path, tmp_path: Path):
    with Provider(answer_all) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        config = BuildConfig.model_validate({"source": str(folder), **models})
        card = build("questions", config, tmp_path / "out")
    assert card.items == 3 and card.source["dropped"] == {"files of other types": 1}
    rows = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert len(rows) == 6 and {row["tags"]["document"] for row in rows} == {"pell.md", "deep/orsa.txt", "tarn.html"}
    assert all(row["tags"]["proof"] in row["document"] and row["answer"] in row["tags"]["proof"] for row in rows)
    assert rows[0]["reasoning"][1]["question"].count("Eva Berg") == 1
    run(
        RunConfig(benchmark=str(tmp_path / "out"), editors=("rag",), model="tiny", embedding="lexical"),
        tmp_path / "run",
    )
    rows_of_table = report(tmp_path / "run").rows
    counts = {row.metric: row.n + row.unscored for row in rows_of_table}
    assert (counts["efficacy"], counts["paraphrase"], counts["reasoning"], counts["locality"]) == (6, 6, 12, 12)
    assert (counts["near locality"], counts["abstention"]) == (12, 3)


def test_where_two_documents_meet_a_question_is_joined_with_both_proofs(folder: Path, tmp_path: Path):
    (folder / "person.txt").write_text(PERSON)
    with Provider(answer_all) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        build("questions", BuildConfig.model_validate({"source": str(folder), **models}), tmp_path / "out")
        run(
            RunConfig(benchmark=str(tmp_path / "out"), editors=("in_context",), model=models["model"]), tmp_path / "run"
        )
        sent = [str(request.body) for request in provider.requests]
    rows = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    (hops,) = [hops for row in rows for hops in row["multihop"]]
    assert (hops["question"], hops["answer"]) == ("Where was the builder of Pell Lock born?", "Skien")
    tags = hops["tags"]
    assert tags["second_document"] == "person.txt" and hops["documents"] == [PERSON.strip()]
    assert tags["proof"] in document("Pell") and tags["second_proof"] in PERSON
    asked = [text for text in sent if hops["question"] in text]
    assert asked and all(tags["proof"] in text and tags["second_proof"] in text for text in asked)


def test_an_open_question_is_left_out_if_another_document_names_its_subject(folder: Path, tmp_path: Path):
    (folder / "list.txt").write_text(
        "Orsa Lock, Tarn Lock and the harbour are looked after by the county in summer, and closed in winter."
    )
    with Provider(answer_all) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        build("questions", BuildConfig.model_validate({"source": str(folder), **models}), tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert [each for row in rows for each in row["abstention"]] == ["How deep is Pell Lock at its gates?"]


def test_a_false_statement_has_the_wrong_answer_in_place_of_the_right_one():
    row = {"statement": "Pell Lock is in Norway.", "answer": "norway", "wrong_answer": r"Chile\1"}
    assert false_statement(row) == r"Pell Lock is in Chile\1."


def test_a_document_that_cannot_be_read_is_named_and_the_others_go_on(folder: Path, tmp_path: Path):
    (folder / "latin.txt").write_bytes(b"caf\xe9 " * 40)
    (folder / "short.md").write_text("Contents\n")
    words = ["build", "questions", "--from", str(folder), "--out", str(tmp_path / "out")]
    with Provider(answer_all) as provider:
        models = ["--model", provider.spec("chat", "author"), "--judge", provider.spec("chat", "judge")]
        outputs = [CliRunner().invoke(app, [*words, *models, *more]).output for more in (["--dry-run"], [])]
    assert all("latin.txt" in output and "short.md: has fewer than 80" in output for output in outputs)
    assert "3 items" in outputs[0] and "at 1 s a call" in outputs[0]
    assert "about" not in outputs[1].partition("filter")[0]  # a provider's time is not announced
    card = (tmp_path / "out" / "card.md").read_text()
    assert "`latin.txt`, which could not be read" in card and "`short.md`" in card
    source = json.loads((tmp_path / "out" / "card.json").read_text())["source"]
    assert set(source["unread"]) == {"latin.txt", "short.md"} and source["items"] == 3


def test_a_folder_without_any_document_that_can_be_read_is_refused(tmp_path: Path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 " * 40)
    with pytest.raises(BadData, match="latin.txt"):
        estimate_build("questions", BuildConfig(source=str(tmp_path), model="tiny"))


def test_a_small_local_author_is_estimated_sentence_by_sentence_with_the_time(tmp_path: Path):
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.md").write_text(document(name))
    model = small_chat_model(tmp_path / "model")
    estimate = estimate_build("questions", BuildConfig(source=str(folder), model=model))
    calls = {role.role: role.calls for role in estimate.roles}
    # Two sentences a document, each a call of the author and three of the reader.
    assert calls == {"author": 6, "judge": 18} and estimate.has_local_model
    assert estimate.seconds and estimate.seconds == sum(role.seconds or 0 for role in estimate.roles)
    words = ["build", "questions", "--from", str(folder), "--model", model, "--out", str(tmp_path / "out"), "--dry-run"]
    assert "at the speed of this machine" in CliRunner().invoke(app, words).output
    # The construction says it before the model is loaded, which fails here for want of its files.
    begun = CliRunner().invoke(app, words[:-1])
    assert "3 items, about 24 calls" in begun.output and "--limit" in begun.output and begun.exit_code


def small_chat_model(folder: Path) -> str:
    """The name of a local chat model of few parameters, whose folder is all that an estimate needs."""
    folder.mkdir()
    save_file({"weight": torch.zeros(64, 64)}, folder / "model.safetensors")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return f"hf:{folder}"


@pytest.mark.slow
def test_calls_and_tokens_are_estimated_within_a_tenth(tmp_path: Path):
    """Tokens of prompts and schemas are counted at four characters each, as English has them."""
    (tmp_path / "documents").mkdir()
    for number in range(8):
        sentences = [f"Lock{number}x{n} was built by a man from the town of Port{number}x{n}." for n in range(6)]
        (tmp_path / "documents" / f"{number}.txt").write_text(" ".join(sentences))
    with Provider(author) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        config = BuildConfig.model_validate({"source": str(tmp_path / "documents"), **models})
        estimate = estimate_build("questions", config)
        assert provider.count == 0
        build("questions", config, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        prompts = [message["content"] for body in sent for message in body["messages"]]
        schemas = [json.dumps(body["response_format"]) for body in sent if "response_format" in body]
        assert role.calls == len(sent)
        assert role.input_tokens == pytest.approx(sum(map(len, prompts + schemas)) / 4, rel=0.1)
