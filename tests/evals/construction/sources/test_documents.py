"""Documents of a folder: their texts, their parts, and those that cannot be read."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emend.evals.construction.sources import document_parsers, document_reader
from emend.evals.construction.sources.document_reader import DocumentLimits, DocumentReader
from emend.evals.construction.sources.documents import LONGEST, DocumentFolder, divide, text_of
from emend.memory.errors import BadData, MissingData
from scripts.nightly.odd_documents import SCRIPTS, odd_pages

TEXT = "The keeper of Tarn Lock is Luis Tarnez, who lives beside it with two dogs and a boat of his own. "

WHOLE = ("comment", "script", "style", "title")
"""What takes all that follows into itself, as in a browser."""


@pytest.fixture(scope="module")
def reader() -> Iterator[DocumentReader]:
    pytest.importorskip("lxml", reason="the extra 'documents' is not installed")
    with DocumentReader() as reader:
        yield reader


def test_a_page_is_read_without_what_is_not_shown(reader: DocumentReader, tmp_path: Path):
    head = "<head><title>x</title><script>evil()</script></head><nav>Home</nav>"
    (tmp_path / "tarn.html").write_text(f"<html>{head}<p>Ana  Tarnson</p><p>caf\u00e9</html>")
    assert text_of(tmp_path / "tarn.html", reader).split() == ["Ana", "Tarnson", "caf\u00e9"]


def test_a_pdf_is_read(reader: DocumentReader, tmp_path: Path):
    pypdf = pytest.importorskip("pypdf", reason="the extra 'documents' is not installed")
    writer = pypdf.PdfWriter()
    writer.add_blank_page(width=72, height=72)
    writer.write(tmp_path / "blank.pdf")
    assert text_of(tmp_path / "blank.pdf", reader).strip() == ""
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    with pytest.raises(BadData, match="Error"):
        text_of(tmp_path / "broken.pdf", reader)


@pytest.mark.parametrize("name", odd_pages())
def test_odd_pages_keep_the_text_behind_them_or_have_none(reader: DocumentReader, name: str):
    text = reader.read("html", odd_pages()[name])
    assert "Tarnez" in text or name in (
        "comment",
        "attribute",
        "title",
        "textarea",
        "style",
        "script",
        "marked section",
    )


def test_what_a_parser_raises_is_the_documents_fault(monkeypatch: pytest.MonkeyPatch):
    def fail(content: bytes) -> str:
        raise [TypeError("odd"), AssertionError(), MemoryError()][len(content)]

    monkeypatch.setitem(document_parsers.PARSERS, "pdf", fail)
    replies = [document_parsers.read_document("pdf", b"x" * size)["error"] for size in range(3)]
    assert replies[:2] == ["TypeError: odd", "AssertionError"] and "MiB" in replies[2]


@pytest.mark.slow
def test_a_document_that_takes_too_long_ends_its_process_alone(reader: DocumentReader, monkeypatch, tmp_path: Path):
    pytest.importorskip("resource", reason="the system limits no processor time")
    endless = tmp_path / "endless.py"
    endless.write_text(
        "from emend.evals.construction.sources import document_parsers as parsers\n"
        "def loop(content):\n    while True: pass\n"
        "parsers.PARSERS['pdf'] = loop\nparsers.main()\n"
    )
    monkeypatch.setattr(document_reader, "PARSERS", "endless")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with DocumentReader() as other:
        with pytest.raises(BadData, match="takes more than"):
            other.read("pdf", b"")
        assert "Tarnez" in other.read("html", TEXT.encode())


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped")
def test_a_process_that_does_not_end_is_killed():
    pytest.importorskip("lxml", reason="the extra 'documents' is not installed")
    other = DocumentReader()
    other.read("html", TEXT.encode())
    process = other._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    assert other._stop() == -signal.SIGKILL


def test_the_time_of_a_document_grows_with_its_size_up_to_a_bound():
    assert (
        DocumentLimits.of_size(0).work
        == 2
        < DocumentLimits.of_size(10**6).work
        < DocumentLimits.of_size(10**12).work
        <= 300
    )


def test_long_documents_are_divided_between_paragraphs_and_nothing_is_lost():
    paragraphs = [f"Paragraph {number}: " + "word " * 150 for number in range(20)]
    parts = divide("\n\n".join(paragraphs))
    assert len(parts) > 3 and max(map(len, parts)) <= LONGEST
    assert " ".join(" ".join(parts).split()) == " ".join(" ".join(paragraphs).split())
    assert all(part.startswith("Paragraph") for part in parts)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_long_paragraph_of_any_script_is_divided_and_nothing_is_lost(name: str):
    whole = SCRIPTS[name] * 400
    parts = divide(whole)
    assert len(parts) > 1 and max(map(len, parts)) <= LONGEST
    assert "".join("".join(parts).split()) == "".join(whole.split())


def test_what_is_too_short_to_state_a_fact_has_no_parts():
    assert divide("Contents\n\n\n") == []


def test_documents_that_cannot_be_read_are_named_with_the_reason(tmp_path: Path):
    (tmp_path / "good.txt").write_text(TEXT)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 " * 40)
    (tmp_path / "short.md").write_text("Contents")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    folder = DocumentFolder(str(tmp_path))
    assert [part.name for part in folder.parts()] == ["good.txt"]
    assert set(folder.unread) == {"latin.txt", "short.md", "broken.pdf"}
    assert "UTF-8" in folder.unread["latin.txt"] and "80 characters" in folder.unread["short.md"]
    assert set(folder.digests()) == {"good.txt", "latin.txt", "short.md", "broken.pdf"}


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path):
    with pytest.raises(MissingData, match="no folder"):
        DocumentFolder(str(tmp_path / "none"))
    with pytest.raises(MissingData, match="--from"):
        DocumentFolder(str(tmp_path))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("secret " * 40)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "good.txt").write_text(TEXT)
    (tmp_path / "folder" / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert [part.text for part in DocumentFolder(str(tmp_path / "folder")).parts()] == [TEXT.strip()]
