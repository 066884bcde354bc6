"""Questions about a folder of documents: reading it, and the benchmark that a run takes."""

import json
import re
from pathlib import Path

import pytest

from emend.evals.build.build import build, foresee
from emend.evals.build.sources.questions import LONGEST, DocumentFolder, divide, false_statement, text_of
from emend.evals.config.run_config import RunConfig
from emend.evals.config.task_config import BuildConfig
from emend.evals.results.aggregate.rows import report
from emend.evals.run.run import run
from emend.graphs.construction.document_facts import DocumentFact, DocumentFacts, UnansweredQuestion
from emend.memory.errors import BadData, MissingData
from tests.evals.build.authors import TASKS, author
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


def test_a_page_is_read_without_what_is_not_shown(folder: Path):
    assert "evil" not in text_of(folder / "tarn.html") and "Ana Tarnson" in text_of(folder / "tarn.html")


def test_long_documents_are_divided_between_paragraphs_and_nothing_is_lost():
    paragraphs = [f"Paragraph {number}: " + "word " * 150 for number in range(20)]
    parts = divide("\n\n".join(paragraphs))
    assert len(parts) > 3 and max(map(len, parts)) <= LONGEST
    assert " ".join(" ".join(parts).split()) == " ".join(" ".join(paragraphs).split())
    whole = "A sentence without any break. " * 400
    assert "".join("".join(divide(whole)).split()) == "".join(whole.split())


def test_what_is_too_short_to_state_a_fact_is_left_out():
    assert divide("Contents\n\n\n") == []


def test_a_missing_or_empty_folder_and_a_text_in_another_encoding_are_refused(tmp_path: Path):
    with pytest.raises(MissingData, match="no folder"):
        DocumentFolder(str(tmp_path / "none"))
    with pytest.raises(MissingData, match="--from"):
        DocumentFolder(str(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 " * 40)
    with pytest.raises(BadData, match="a.txt"):
        list(DocumentFolder(str(tmp_path)).parts())


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path):
    (tmp_path / "secret.txt").write_text("secret " * 40)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert all("secret" not in part.text for part in DocumentFolder(str(folder)).parts())


def test_a_false_statement_has_the_wrong_answer_in_place_of_the_right_one():
    row = {"statement": "Pell Lock is in Norway.", "answer": "norway", "wrong_answer": r"Chile\1"}
    assert false_statement(row) == r"Pell Lock is in Chile\1."


def test_a_pdf_is_read_with_the_extra_package(tmp_path: Path):
    pypdf = pytest.importorskip("pypdf", reason="the extra 'pdf' is not installed")
    writer = pypdf.PdfWriter()
    writer.add_blank_page(width=72, height=72)
    writer.write(tmp_path / "blank.pdf")
    assert text_of(tmp_path / "blank.pdf").strip() == ""
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    with pytest.raises(BadData, match="broken.pdf"):
        text_of(tmp_path / "broken.pdf")


@pytest.mark.slow
def test_calls_and_tokens_are_foreseen_within_a_tenth(tmp_path: Path):
    """Tokens of prompts and schemas are counted at four characters each, as English has them."""
    (tmp_path / "documents").mkdir()
    for number in range(8):
        sentences = [f"Lock{number}x{n} was built by a man from the town of Port{number}x{n}." for n in range(6)]
        (tmp_path / "documents" / f"{number}.txt").write_text(" ".join(sentences))
    with Provider(author) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        config = BuildConfig.model_validate({"source": str(tmp_path / "documents"), **models})
        estimate = foresee("questions", config)
        assert provider.count == 0
        build("questions", config, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        prompts = [message["content"] for body in sent for message in body["messages"]]
        schemas = [json.dumps(body["response_format"]) for body in sent if "response_format" in body]
        assert role.calls == len(sent)
        assert role.input_tokens == pytest.approx(sum(map(len, prompts + schemas)) / 4, rel=0.1)
