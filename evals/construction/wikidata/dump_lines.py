"""Parallel reader for the lines of a Wikidata dump: one process decompresses, the others parse.

A dump is a JSON array with an entity and a comma per line, plain or compressed with gzip or bzip2.
"""

import bz2
import gzip
import multiprocessing
import os
import re
import threading
import zlib
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar, cast

from emend.evals.construction.wikidata.entities import EntityDecoder, WikiItem
from emend.evals.construction.wikidata.fact_update import (
    ChangeRule,
    FactUpdate,
    UpdateCounts,
    changes_of,
)
from emend.evals.data.facts.relation_tables import Relations
from emend.memory.errors import BadData, MissingData, WorkerDied
from emend.memory.files import open_file

# Block size in bytes.
BLOCK = 1 << 20
# Maximum length of a line in bytes; the largest item has a sixteenth of it.
LONGEST = 1 << 26
# Number of bytes from which a dump is recognised.
HEAD = 1 << 16
ORIGIN = (
    "A dump is wikidata-YYYYMMDD-all.json.gz or .json.bz2 of "
    "https://dumps.wikimedia.org/wikidatawiki/entities/"
)
_PACKED: dict[bytes, Callable[[BinaryIO], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
# Number of queued blocks per worker, so that no worker waits for the decompression.
AHEAD = 2
# Byte-order mark.
MARK = b"\xef\xbb\xbf"
_START = b'"P580"'
# Start of an entity as serialised by Wikidata.
_HEAD = re.compile(
    rb'\{(?:"(?:pageid|ns|lastrevid)":\d+,|"(?:title|type|modified)":"[^"\\]*",)*"id":"([A-Z]\d+)"'
)
T = TypeVar("T")


class Block(NamedTuple):
    """Complete lines of a dump with their offsets in the decompressed content; empty for a line
    that is too long.
    """

    offset: int
    content: bytes
    end: int
    """Offset of the end of the lines."""
    packed_end: int
    """Number of bytes of the compressed file read up to the end of the lines."""


class DumpFile:
    """Wikidata dump on disk.

    Raises:
        MissingData: the file does not exist.
        BadData: the file is not a dump.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise MissingData(f"there is no dump '{path}'. {ORIGIN}")
        self.size = path.stat().st_size
        head = next(self.blocks(0, HEAD), None)
        if not head or not head.content.lstrip(MARK + b" \r\n").startswith((b"[", b'{"')):
            raise BadData(f"'{path}' is not a JSON dump of Wikidata. {ORIGIN}")

    def blocks(self, offset: int, size: int = BLOCK) -> Iterator[Block]:
        """Yield blocks of lines from an offset; in a compressed file, the content before it is
        decompressed and skipped.

        Args:
            offset: offset of the start of a line in the decompressed dump.
            size: approximate block size in bytes.

        Raises:
            BadData: the file cannot be decompressed, or is truncated.
        """
        rest = b""
        with (
            open_file(self.path, links=True, buffering=1 << 20) as packed,
            _unpacked(packed) as file,
        ):
            try:
                file.seek(offset)
                while chunk := file.read(size):
                    rest += chunk
                    whole = rest.rfind(b"\n") + 1
                    if whole:
                        yield Block(offset, rest[:whole], offset + whole, packed.tell())
                        offset, rest = offset + whole, rest[whole:]
                    if len(rest) > LONGEST:
                        end = offset + len(rest) + _pass_over_line(file)
                        yield Block(offset, b"", end, packed.tell())
                        offset, rest = end, b""
                if rest:
                    yield Block(offset, rest, offset + len(rest), packed.tell())
            except (OSError, EOFError, ValueError, zlib.error) as error:
                raise BadData(
                    f"'{self.path}' cannot be read after byte {offset:,} of its decompressed "
                    f"content: {error}. Fetch it again; compare its size and checksum with the "
                    "published ones."
                ) from error


def _unpacked(file: BinaryIO) -> BinaryIO:
    start = file.read(4)
    file.seek(0)
    for magic, opener in _PACKED.items():
        if start.startswith(magic):
            return cast(BinaryIO, opener(file))
    return file


def _pass_over_line(file: BinaryIO) -> int:
    """Skip the rest of a line and return its length."""
    length = 0
    while part := file.readline(BLOCK):
        length += len(part)
        if part.endswith(b"\n"):
            break
    return length


class LineScanner(ABC, Generic[T]):
    """Base class for scanners of blocks, which are sent to each worker once."""

    def scan(self, block: Block) -> tuple[UpdateCounts, list[T]]:
        """Return the counts and the results of the lines of a block."""
        counts, rows = UpdateCounts(), list[T]()
        offset = block.offset
        for raw in block.content.split(b"\n") if block.content else [b"{"]:
            line = raw.rstrip(b", \r\t")
            if line not in (b"", b"[", b"]", MARK + b"["):
                counts.lines += 1
                try:
                    rows += self.read(line, counts)
                except ValueError:
                    counts.add_damaged(offset)
            offset += len(raw) + 1
        return counts, rows

    @abstractmethod
    def read(self, line: bytes, counts: UpdateCounts) -> Iterable[T]:
        """Return the results of a line.

        Raises:
            ValueError: the line is damaged.
        """


class ChangeScanner(LineScanner[FactUpdate]):
    """Scanner for changes; lines without a start time or without any of the relations are not
    parsed.
    """

    def __init__(self, rule: ChangeRule, relations: Relations, language: str) -> None:
        self._rule, self._relations = rule, relations
        self._decoder = EntityDecoder(relations.by_id, language)
        numbers = "|".join(id_[1:] for id_ in relations.by_id)
        self._key = re.compile(rf'"P(?:{numbers})"\s*:'.encode())

    def read(self, line: bytes, counts: UpdateCounts) -> Iterable[FactUpdate]:
        """Return the changes of an entity."""
        if not (line.startswith(b"{") and line.endswith(b"}")):
            raise ValueError("no JSON object")
        if _START not in line or not self._key.search(line):
            return ()
        item = self._decoder.decode(line)
        return changes_of(item, self._rule, self._relations, counts) if item else ()


class ItemScanner(LineScanner[WikiItem]):
    """Scanner for items with given ids; lines that start with another id are not parsed."""

    def __init__(self, ids: Iterable[str], language: str) -> None:
        # a sorted array takes 8 bytes per id, a set about 100
        self._numbers = array("Q", sorted(int(id_[1:]) for id_ in ids))
        self._decoder = EntityDecoder((), language)

    def read(self, line: bytes, counts: UpdateCounts) -> Iterable[WikiItem]:
        """Return the item of a line if its id is one of those requested."""
        head = _HEAD.match(line)
        if head and not self._has(head[1].decode()):
            return ()
        item = self._decoder.decode(line)
        return (item,) if item and self._has(item.id) else ()

    def _has(self, id_: str) -> bool:
        number = int(id_[1:]) if id_[0] == "Q" else 0
        place = bisect_left(self._numbers, number)
        return place < len(self._numbers) and self._numbers[place] == number


_scanner: LineScanner[Any] | None = None


def _start(scanner: LineScanner[Any]) -> None:
    global _scanner
    _scanner = scanner
    # a killed parent process cannot stop its workers, which would wait for blocks forever
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _scan(block: Block) -> Any:
    assert _scanner is not None
    return _scanner.scan(block)


def scan_blocks(
    blocks: Iterable[Block], scanner: LineScanner[T], workers: int | None = None
) -> Iterator[tuple[Block, UpdateCounts, list[T]]]:
    """Yield the blocks in order, each with the counts and the results of its lines.

    With several workers, the yielded blocks have no content.

    Args:
        blocks: blocks of a dump.
        scanner: scanner of the lines.
        workers: number of processes; None for one per CPU, 1 for the current process only.

    Raises:
        WorkerDied: the system killed a worker.
    """
    count = workers or os.cpu_count() or 1
    if count == 1:
        yield from ((block, *scanner.scan(block)) for block in blocks)
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _start, (scanner,))
    waiting = deque[tuple[Block, Future[tuple[UpdateCounts, list[T]]]]]()
    try:
        for block in blocks:
            waiting.append((block._replace(content=b""), pool.submit(_scan, block)))
            if len(waiting) > count * AHEAD:
                first, rows = waiting.popleft()
                yield first, *rows.result()
        for first, rows in waiting:
            yield first, *rows.result()
    except BrokenProcessPool as error:
        raise WorkerDied(
            "a process that read the dump ended, perhaps out of memory: use fewer workers."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
