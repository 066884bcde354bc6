"""Extraction into a file: resumable, without losing a line."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from emend.evals.data.benchmarks.triples import ExtractedDocument, read_extracted
from emend.evals.measure.extraction import SourceDocument, document_extractor, extract_to, score, settings_of
from emend.evals.show.report.progress import RunProgress
from emend.graphs.extraction.graph import ExtractContext
from emend.graphs.extraction.llm import LlmExtractor
from emend.graphs.extraction.rules import RulesExtractor
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings, RunRefused, TooManyFailures
from emend.memory.probe import Usage
from tests.fakes import ScriptedChatModel

DOCUMENTS = [
    SourceDocument(edit=Edit(form="document", text=f"Text {n}."), gold=f"Ana is {n}", subject="Ana") for n in range(5)
]


def reader(fail=(), fingerprint="f1", method="rules"):
    """Reads one triplet out of each text, but not out of those that fail; keeps what it was asked."""

    def read(edit):
        read.asked.append(edit.text)  # type: ignore[attr-defined]
        common = dict(document_id=edit.id, method=method, fingerprint=fingerprint)
        if edit.text in fail:
            return ExtractedDocument(**common, reason="unreadable reply", failed=True, reply="?!")
        number = edit.text.split()[1].rstrip(".")
        return ExtractedDocument(**common, triplets=(Triplet(subject="Ana", relation="is", object=number),))

    read.asked = []  # type: ignore[attr-defined]
    return read


def test_what_is_extracted_is_not_extracted_again(tmp_path):
    out, read = tmp_path / "deep" / "t.jsonl", reader()
    extract_to(out, DOCUMENTS[:2], read, "f1")
    first = extract_to(out, DOCUMENTS, read, "f1")
    assert first.added == 3 and [row.triplets[0].object for row in first.rows] == list("01234")
    content = out.read_bytes()
    second = extract_to(out, DOCUMENTS, read, "f1")
    assert (first.skipped, second.added, second.skipped) == (2, 0, 5)
    assert len(read.asked) == 5 and first.rows == second.rows and out.read_bytes() == content


def test_an_interrupted_call_keeps_finished_lines_and_cuts_a_torn_one(tmp_path):
    out, read = tmp_path / "t.jsonl", reader()

    def interrupted(edit):
        if edit.text == "Text 3.":
            raise KeyboardInterrupt
        return read(edit)

    with pytest.raises(KeyboardInterrupt):
        extract_to(out, DOCUMENTS, interrupted, "f1")
    with out.open("ab") as file:
        file.write(b'{"document_id": "to')
    assert len(list(read_extracted(out))) == 3
    assert extract_to(out, DOCUMENTS, read, "f1").added == 2
    assert len(out.read_text().splitlines()) == 5 == len(read.asked)


def test_a_failed_document_is_kept_with_its_reply_and_tried_again(tmp_path):
    out = tmp_path / "t.jsonl"
    first = extract_to(out, DOCUMENTS, reader(fail=["Text 1."]), "f1")
    assert first.rows[1].failed and first.rows[1].reply == "?!" and first.rows[1].triplets == ()
    read = reader()
    second = extract_to(out, DOCUMENTS, read, "f1")
    assert read.asked == ["Text 1."] and not second.rows[1].failed
    assert len(out.read_text().splitlines()) == 5


def test_another_fingerprint_is_refused_and_nothing_is_lost(tmp_path):
    out = tmp_path / "t.jsonl"
    extract_to(out, DOCUMENTS, reader(), "f1")
    before = out.read_bytes()
    with pytest.raises(RunRefused, match="f1.*f2.*another --out"):
        extract_to(out, DOCUMENTS, reader(fingerprint="f2"), "f2")
    assert out.read_bytes() == before


def test_a_file_that_the_user_names_may_be_a_link(tmp_path):
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "t.jsonl")
    extract_to(tmp_path / "link.jsonl", DOCUMENTS, reader(), "f1")
    assert (tmp_path / "link.jsonl").is_symlink() and (tmp_path / "t.jsonl").stat().st_size


def test_a_foreign_file_is_left_unchanged(tmp_path):
    out = tmp_path / "mine.json"
    out.write_text('[{"id": 1, "src": "the only copy"}]')
    with pytest.raises(RunRefused, match="did not write.*another --out"):
        extract_to(out, DOCUMENTS, reader(), "f1")
    assert out.read_text() == '[{"id": 1, "src": "the only copy"}]'


@pytest.mark.slow
def test_a_second_process_is_refused(tmp_path):
    out = tmp_path / "t.jsonl"
    with FileLock(f"{out}.lock"):
        code = (
            "import sys; from pathlib import Path; from emend.evals.measure.extraction import extract_to;"
            "extract_to(Path(sys.argv[1]), [], lambda edit: None, 'f1')"
        )
        done = subprocess.run([sys.executable, "-c", code, str(out)], capture_output=True, text=True)
    assert "another process is writing" in done.stderr and done.returncode


def test_a_damaged_line_is_reported_with_its_number(tmp_path):
    out = tmp_path / "t.jsonl"
    extract_to(out, DOCUMENTS, reader(), "f1")
    lines = out.read_text().splitlines()
    lines[1] = lines[1].replace('"subject"', '"sbject"')
    out.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadData, match=r"line 2, field triplets\.0\.s"):
        extract_to(out, DOCUMENTS, reader(), "f1")


def test_threads_give_the_same_lines_in_the_same_order(tmp_path):
    result = extract_to(tmp_path / "a.jsonl", DOCUMENTS, reader(), "f1")
    many = extract_to(tmp_path / "b.jsonl", DOCUMENTS, reader(), "f1", concurrency=3)
    assert result.rows == many.rows and (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_progress_counts_each_document(tmp_path):
    result, read, usage = RunProgress(), reader(fail=["Text 1."]), Usage(input_tokens=7, output_tokens=2, calls=1)
    extract_to(
        tmp_path / "t.jsonl", DOCUMENTS, lambda edit: read(edit).model_copy(update={"usage": usage}), "f1", result
    )
    assert (result.total, result.done, result.failed, result.tokens) == (5, 4, 1, 5 * 9)


def test_failed_documents_and_those_without_gold_are_unscored_with_the_reason(tmp_path):
    documents = [*DOCUMENTS[:2], SourceDocument(edit=Edit(form="document", text="Text 9."))]
    rows = extract_to(tmp_path / "t.jsonl", documents, reader(fail=["Text 1."]), "f1").rows
    quality = score(documents, rows, LexicalEmbedding())
    assert (quality.recall.mean, quality.recall.n, quality.recall.unscored) == (1.0, 1, 2)
    assert set(quality.reasons) == {"unreadable reply", "the benchmark has no gold triplet for the document"}


def modelled(reply):
    """The reader of the command, with a scripted model."""
    extractor = LlmExtractor(ScriptedChatModel(reply=reply))
    return document_extractor(ExtractContext(extractor, LexicalEmbedding(), attempts=2))


def test_an_unparsable_reply_is_a_line_with_reason_reply_and_cost(tmp_path):
    (row,) = extract_to(tmp_path / "t.jsonl", DOCUMENTS[:1], modelled(lambda prompt: "Sorry."), "f").rows
    assert row.failed and row.reply == "Sorry." and "asked 2 times" in row.reason and row.usage.calls == 2
    assert score(DOCUMENTS[:1], [row], LexicalEmbedding()).recall.unscored == 1


def test_a_single_failure_of_the_model_does_not_end_the_extraction(tmp_path):
    def reply(prompt):
        if "Text 2." in prompt:
            raise ConnectionError("no route")
        return '{"triplets": [{"subject": "Ana", "relation": "is", "object": "Rojo"}]}'

    rows = extract_to(tmp_path / "t.jsonl", DOCUMENTS, modelled(reply), "f").rows
    assert [row.failed for row in rows] == [False, False, True, False, False]
    assert rows[2].reason.startswith("the model failed: ") and "no route" in rows[2].reason


def test_repeated_failures_end_the_extraction_and_finished_lines_stay(tmp_path):
    def reply(prompt):
        raise ConnectionError("no route")

    many = [SourceDocument(edit=Edit(form="document", text=f"Text {n}.")) for n in range(20)]
    with pytest.raises(TooManyFailures, match="5 documents in a row.*no route.*repeat the command"):
        extract_to(tmp_path / "t.jsonl", many, modelled(reply), "f")
    assert len(list(read_extracted(tmp_path / "t.jsonl"))) == 5


def test_a_language_unknown_to_the_rules_ends_the_extraction(tmp_path):
    read = document_extractor(ExtractContext(RulesExtractor(), LexicalEmbedding()))
    with pytest.raises(BadSettings, match="only English"):
        document = SourceDocument(edit=Edit(form="document", text="奥斯陆。", language="zh"))
        extract_to(tmp_path / "t.jsonl", [document], read, "f")


# --- a file made with other settings

LIVING = [SourceDocument(edit=Edit(form="document", text="Ana Ruiz lives in Madrid."))]
USUAL = ExtractContext(RulesExtractor(), LexicalEmbedding())
CHANGES: dict[str, Any] = {
    "extractor": LlmExtractor(ScriptedChatModel(reply=lambda prompt: "")),
    "embedding": LexicalEmbedding(64),
    "coreference": False,
    "validation": "off",
    "deduplication": False,
    "attempts": 2,
    "normalisation": False,
}


def extracted(out: Path, context: ExtractContext) -> None:
    extract_to(out, LIVING, document_extractor(context), context.fingerprint, settings=settings_of(context))


@pytest.mark.parametrize("name", ExtractContext.__dataclass_fields__)
def test_every_setting_that_changes_the_fingerprint_is_named(tmp_path, name):
    extracted(tmp_path / "t.jsonl", USUAL)
    other = replace(USUAL, **{name: CHANGES[name]})
    assert other.fingerprint != USUAL.fingerprint
    with pytest.raises(RunRefused, match=f"; {name}: was .*, now .*another --out") as refused:
        extracted(tmp_path / "t.jsonl", other)
    assert str(refused.value).count(": was ") == 2


def test_settings_are_read_back_as_written(tmp_path):
    extracted(tmp_path / "t.jsonl", USUAL)
    (row,) = read_extracted(tmp_path / "t.jsonl")
    assert row.settings == settings_of(USUAL)
    assert [type(row.settings[name]) for name in ("coreference", "attempts", "validation")] == [bool, int, str]


def test_a_file_without_settings_is_resumed_and_a_refusal_lists_the_current_ones(tmp_path):
    out = tmp_path / "t.jsonl"
    read = document_extractor(USUAL)
    extract_to(out, LIVING, lambda edit: read(edit).model_copy(update={"settings": {}}), USUAL.fingerprint)
    out.write_text(out.read_text("utf-8").replace('"settings":{},', ""), "utf-8")
    extracted(out, USUAL)
    with pytest.raises(RunRefused, match="deduplication: was null, now false"):
        extracted(out, replace(USUAL, deduplication=False))
