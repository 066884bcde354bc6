"""Subprocess that extracts text from PDF and HTML documents, with a memory limit and a CPU time
limit per document.

A request is a line of JSON, `{"form": "pdf", "size": 1234, "seconds": 2}`, followed by `size`
bytes; the reply is a line of JSON, `{"text": ...}` or `{"error": ...}`.
"""

import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

# Limit of the process's address space in bytes.
MEMORY = 2**31
HIDDEN = frozenset({"script", "style", "head", "template", "noscript", "nav", "footer"})
BLOCKS = frozenset("p div br li tr h1 h2 h3 h4 h5 h6 section article table".split())


class VisibleText:
    """Parser target for lxml that collects the visible text of a page, with an empty line after
    each block element.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._hidden = 0

    def start(self, tag: str, attributes: object) -> None:
        """Handle the start of an element."""
        self._hidden += tag in HIDDEN
        self._end_block(tag)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        self._hidden -= tag in HIDDEN and self._hidden > 0
        self._end_block(tag)

    def data(self, text: str) -> None:
        """Collect a text with normalised white space."""
        if not self._hidden:
            self._texts.append(re.sub(r"\s+", " ", text))

    def comment(self, text: str) -> None:
        """Ignore a comment."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Ignore a processing instruction."""

    def close(self) -> str:
        """Return the collected text."""
        return "".join(self._texts)

    def _end_block(self, tag: str) -> None:
        if tag in BLOCKS:
            self._texts.append("\n\n")


def html_text(page: bytes) -> str:
    """Return the visible text of an HTML page in UTF-8."""
    from lxml import etree

    target = VisibleText()
    parser = etree.HTMLParser(encoding="utf-8", target=target, huge_tree=True)
    with suppress(etree.ParserError):  # the page is empty
        etree.fromstring(page, parser)
    return target.close()


def pdf_text(content: bytes) -> str:
    """Return the text of a PDF, with an empty line between pages."""
    from pypdf import PdfReader

    return "\n\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)


PARSERS: dict[str, Callable[[bytes], str]] = {"html": html_text, "pdf": pdf_text}


def read_document(form: str, content: bytes) -> dict[str, str]:
    """Return the reply to a request; any exception of the parser is reported as the document's
    error.
    """
    try:
        text = PARSERS[form](content)
    except MemoryError:
        return {"error": f"needs more than {MEMORY >> 20:,} MiB of memory"}
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        return {"error": f"{type(error).__name__}: {message}" if message else type(error).__name__}
    return {"text": text}


def limit_memory() -> None:
    """Limit the memory of this process, if the system supports it."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such module
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def limit_time(seconds: int) -> None:
    """Limit the CPU time of this process to `seconds` more than it has used, if the system supports
    it; used time is rounded down to whole seconds.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + seconds, hard))


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the input ends."""
    for line in requests:
        request = json.loads(line)
        content = requests.read(request["size"])
        limit_time(request["seconds"])
        reply = json.dumps(read_document(request["form"], content))
        replies.write(reply.encode() + b"\n")
        replies.flush()


def main() -> None:
    """Serve on the standard streams, discarding anything that a parser prints."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    replies = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    limit_memory()
    with suppress(ImportError):  # imported first so as not to count as time of a document
        import pypdf  # noqa: F401
        from lxml import etree  # noqa: F401
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
