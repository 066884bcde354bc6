"""Documents of a folder as texts: plain text, Markdown, HTML and PDF."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from emend.evals.data.benchmarks.rows import read_text, sha256
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, MissingData, MissingExtra

LONGEST = 4_000
"""Characters of a part; a longer document is divided between paragraphs."""
SHORTEST = 80
"""Characters of a text that can state a fact."""
PLAIN, HTML, PDF = (".txt", ".md", ".markdown", ".rst"), (".html", ".htm"), (".pdf",)
HIDDEN = frozenset({"script", "style", "head", "template", "noscript", "nav", "footer"})
BLOCKS = frozenset({"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "table"})


class DocumentPart(NamedTuple):
    """A part of a document: its name, with the number of the part if there are several, and its text."""

    name: str
    text: str


class DocumentFolder:
    """The documents of a folder and the folders in it, in the order of their names; others are counted.

    Raises:
        MissingData: there is no such folder, or no document in it.
    """

    def __init__(self, path: str) -> None:
        self.folder = Path(path).expanduser()
        if not self.folder.is_dir():
            raise MissingData(f"there is no folder '{path}': name one with .txt, .md, .html or .pdf files with --from.")
        files = sorted(file for file in self.folder.rglob("*") if file.is_file() and not file.is_symlink())
        self.files = [file for file in files if file.suffix.lower() in (*PLAIN, *HTML, *PDF)]
        self.others = len(files) - len(self.files)
        if not self.files:
            raise MissingData(f"'{path}' holds no .txt, .md, .html or .pdf file: name another folder with --from.")

    def parts(self) -> Iterator[DocumentPart]:
        """Yield the parts of all documents.

        Raises:
            BadData: a document cannot be read; names it.
            MissingExtra: there is a PDF, and the package that reads it is not installed.
        """
        for file in self.files:
            name, texts = str(file.relative_to(self.folder)), divide(text_of(file))
            for number, text in enumerate(texts, 1):
                yield DocumentPart(f"{name}#{number}" if len(texts) > 1 else name, text)

    def digests(self) -> dict[str, str]:
        """The sha256 of each document."""
        return {str(file.relative_to(self.folder)): sha256(file) for file in self.files}


def text_of(file: Path) -> str:
    """The text of a document."""
    if file.suffix.lower() in PDF:
        return _pdf_text(file)
    text = read_text(file, "Save it as UTF-8.")
    return _html_text(text) if file.suffix.lower() in HTML else text


def divide(text: str) -> list[str]:
    """Parts of a text that are not too long, divided between paragraphs; what is too short to say anything is left out.

    A paragraph that is too long by itself is divided between lines or sentences.
    """
    pieces = [piece.strip() for piece in re.split(r"\n\s*\n", text) if piece.strip()]
    pieces = [part for piece in pieces for part in ([piece] if len(piece) <= LONGEST else _sentences(piece))]
    parts = [""]
    for piece in pieces:
        if parts[-1] and len(parts[-1]) + len(piece) + 2 > LONGEST:
            parts.append("")
        parts[-1] = f"{parts[-1]}\n\n{piece}".strip()
    return parts if len(parts) > 1 or len(parts[0]) >= SHORTEST else []


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.findall(rf".{{1,{LONGEST - 1}}}(?:[.!?。\n]|\Z)", text, re.DOTALL)]


def _pdf_text(file: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MissingExtra(f"'{file.name}' is a PDF, which needs a package: {install_command('pdf')}.") from error
    try:
        return "\n\n".join(page.extract_text() for page in PdfReader(file).pages)
    except (PyPdfError, ValueError, OSError, RecursionError) as error:
        raise BadData(f"'{file}' cannot be read as a PDF ({error}): repair or remove it.") from error


class _Text(HTMLParser):
    """The visible text of a page, a line break after each block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in HIDDEN
        self.parts += ["\n\n"] if tag in BLOCKS else []

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in HIDDEN and self._hidden > 0
        self.parts += ["\n\n"] if tag in BLOCKS else []

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def _html_text(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    parser.close()
    return "".join(parser.parts)
