"""Documents of a folder, divided into parts of limited length."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from emend.evals.construction.sources.document_reader import DocumentReader
from emend.evals.data.benchmarks.rows import read_text, sha256
from emend.memory.errors import BadData, MissingData, path_remedy
from emend.memory.files import open_file
from emend.memory.text_pieces import cut_text

# Maximum length of a part in characters; longer documents are divided between paragraphs.
LONGEST = 4_000
# Minimum length of a document in characters.
SHORTEST = 80
# Maximum size of a PDF in bytes; it is held in memory twice.
LARGEST = 2**30
PLAIN, HTML, PDF = (".txt", ".md", ".markdown", ".rst"), (".html", ".htm"), (".pdf",)
_PARAGRAPH_END = re.compile(r"\n\s*\n")


class DocumentPart(NamedTuple):
    """Text of a part of a document; the name has the form `file#2` if there are several parts."""

    name: str
    text: str


class DocumentFolder:
    """Documents of a folder and its subfolders, sorted by name; other files are counted.

    `unread` has the reason for each document that could not be read; it is complete only when all
    parts have been read.

    Raises:
        MissingData: the folder does not exist, or has no documents.
    """

    def __init__(self, path: str) -> None:
        self.folder = Path(path).expanduser()
        self.unread: dict[str, str] = {}
        if not self.folder.is_dir():
            raise MissingData(
                f"there is no folder '{path}': {path_remedy(self.folder)} With --from, name one "
                "with .txt, .md, .html or .pdf files."
            )
        files = sorted(
            file for file in self.folder.rglob("*") if file.is_file() and not file.is_symlink()
        )
        self.files = [file for file in files if file.suffix.lower() in (*PLAIN, *HTML, *PDF)]
        self.others = len(files) - len(self.files)
        if not self.files:
            raise MissingData(
                f"'{path}' contains no .txt, .md, .html or .pdf file: name another folder with "
                "--from."
            )

    def parts(self) -> Iterator[DocumentPart]:
        """Yield the parts of all documents that can be read.

        Raises:
            MissingExtra: the package for PDF or HTML is needed and not installed.
        """
        with DocumentReader() as reader:
            for file in self.files:
                name = self._name(file)
                try:
                    texts = divide(text_of(file, reader))
                    if not texts:
                        raise BadData(f"has fewer than {SHORTEST} characters of text")
                except (BadData, OSError) as error:
                    self.unread[name] = _reason(error)
                    continue
                for number, text in enumerate(texts, 1):
                    yield DocumentPart(f"{name}#{number}" if len(texts) > 1 else name, text)

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 digest of each readable document by name."""
        digests = {}
        for file in self.files:
            try:
                digests[self._name(file)] = sha256(file)
            except (BadData, OSError) as error:
                self.unread[self._name(file)] = _reason(error)
        return digests

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.folder))


def _reason(error: Exception) -> str:
    """Return the reason why a document could not be read, without its name."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def text_of(file: Path, reader: DocumentReader) -> str:
    """Return the text of a document.

    Raises:
        BadData: the document cannot be read.
        MissingExtra: the package that parses its format is not installed.
    """
    suffix = file.suffix.lower()
    if suffix in PDF:
        with open_file(file) as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise BadData(f"is larger than {LARGEST >> 20:,} MiB")
        return reader.read("pdf", content)
    text = read_text(file, "Save it as UTF-8.")
    return reader.read("html", text.encode()) if suffix in HTML else text


def divide(text: str) -> list[str]:
    """Divide a text between paragraphs into parts of limited length; only white space is lost.

    A paragraph that is too long is divided between lines, sentences or words. A text of fewer than
    `SHORTEST` characters has no parts.
    """
    paragraphs = (paragraph.strip() for paragraph in _PARAGRAPH_END.split(text))
    whole = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
    if len(whole) < SHORTEST:
        return []
    parts = (piece.strip() for piece in cut_text(whole, LONGEST))
    return [part for part in parts if part]
