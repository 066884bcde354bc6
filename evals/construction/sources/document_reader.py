"""Reader of PDF and HTML documents in a subprocess, so that a document that crashes the parser does
no harm.
"""

import json
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from types import TracebackType
from typing import Any, NamedTuple, Self

from emend.memory.distribution import install_command
from emend.memory.errors import BadData, MissingExtra

EXTRA = "documents"
# Package that parses each format.
PACKAGES = {"pdf": "pypdf", "html": "lxml"}
PARSERS = "emend.evals.construction.sources.document_parsers"
# CPU seconds allowed per document: base, plus 1 per `BYTES_PER_SECOND`, up to a maximum. Measured:
# a page of a PDF has 3 to 5 kB and takes 20 to 50 ms.
SECONDS, BYTES_PER_SECOND, MOST_SECONDS = 2, 20_000, 300
# Ratio of the wall-clock limit to the CPU limit, since the machine may be busy.
CLOCK_FACTOR = 10


class DocumentLimits(NamedTuple):
    """Limits of a document's CPU time and wall-clock time in seconds."""

    work: int
    clock: float

    @classmethod
    def of_size(cls, size: int) -> Self:
        """Return the limits of a document of `size` bytes."""
        work = min(SECONDS + size // BYTES_PER_SECOND, MOST_SECONDS)
        return cls(work, CLOCK_FACTOR * work)


class DocumentReader:
    """Context manager that reads documents sequentially in a subprocess, started when needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop(seconds=1)

    def read(self, form: str, content: bytes) -> str:
        """Return the text of a document.

        Args:
            form: `pdf` or `html`.
            content: content of the document; HTML is encoded in UTF-8.

        Raises:
            MissingExtra: the package that parses the format is not installed.
            BadData: the document cannot be read within the limits; the message has the reason.
        """
        if not find_spec(PACKAGES[form]):
            raise MissingExtra(
                f"documents in {form.upper()} need a package: {install_command(EXTRA)}."
            )
        limits = DocumentLimits.of_size(len(content))
        process = self._started()
        request = {"form": form, "size": len(content), "seconds": limits.work}
        timer = threading.Timer(limits.clock, process.kill)
        timer.start()
        try:
            reply = _ask(process, json.dumps(request).encode() + b"\n" + content)
        except BaseException:
            self._stop()  # an interruption may leave part of a reply in the pipe
            raise
        finally:
            timer.cancel()
        if reply is None:
            code = self._stop(seconds=1)
            raise BadData(_reason(code, limits))
        if "error" in reply:
            raise BadData(f"cannot be read as {form.upper()} ({reply['error']})")
        return str(reply["text"])

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", PARSERS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def _stop(self, seconds: float = 0) -> int:
        """Stop the process, killing it after `seconds`, and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            process.stdout.close()


def _ask(process: "subprocess.Popen[bytes]", request: bytes) -> dict[str, Any] | None:
    """Return the reply of the process; None if the process has ended."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(request)
        process.stdin.flush()
        line = process.stdout.readline()
    except (OSError, ValueError):
        return None
    return json.loads(line) if line.endswith(b"\n") else None


def _reason(code: int, limits: DocumentLimits) -> str:
    if code in (-getattr(signal, "SIGXCPU", 0), -getattr(signal, "SIGKILL", 0)):
        return f"takes more than {limits.work} s to read"
    return f"crashes the program that reads it, with exit code {code}"
