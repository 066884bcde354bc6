"""Corpora for covariance statistics: local files or a dataset, as a stream of texts."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from emend.memory.errors import BadData, BadSettings, FetchFailed, MissingData, MissingExtra
from emend.memory.json_files import parse_object

HUB = "hf:"
FIELD = "text"
KINDS = ".txt (a text a line), .jsonl (field text), or a dataset as hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"
HEAD = 100
"""Number of a dataset's texts that the corpus name is a hash of."""


@dataclass(frozen=True)
class TextCorpus:
    """Texts in a stable order, under a name that depends on their content."""

    name: str
    count: int | None
    """Number of texts; None if it is unknown before the end."""
    stream: Callable[[], Iterator[str]]

    def __iter__(self) -> Iterator[str]:
        return self.stream()


def read_corpus(sources: Sequence[str], limit: int | None = None) -> TextCorpus:
    """The texts of all sources in order, without blank ones; only sources that begin with `hf:` are downloaded.

    The corpus is named after its first source, with a hash of the limit and of the files' content (of a dataset: of its
    name and first texts).

    Raises:
        MissingData: a file is absent.
        BadSettings: a file has an unknown suffix.
        BadData: a line is malformed.
        MissingExtra: a dataset is named and the package that reads it is not installed.
        FetchFailed: the dataset cannot be read.
    """
    total = hashlib.sha256(repr(limit).encode())
    count: int | None = 0
    streams = [_dataset(source) if source.startswith(HUB) else _file(Path(source).expanduser()) for source in sources]
    for source, stream in zip(sources, streams, strict=True):
        if source.startswith(HUB):
            total.update(json.dumps([source, *islice(stream(), HEAD)]).encode())
            count = None
        else:
            with Path(source).expanduser().open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
            count = None if count is None else count + sum(1 for _ in stream())
    known = count if limit is None or count is None else min(limit, count)
    stem = re.sub(r"[^\w.-]+", "-", Path(sources[0].removeprefix(HUB)).stem)[:40]
    return TextCorpus(
        name=f"{stem}-{total.hexdigest()[:12]}",
        count=known,
        stream=lambda: islice((text for stream in streams for text in stream()), limit),
    )


def _file(path: Path) -> Callable[[], Iterator[str]]:
    if not path.is_file():
        raise MissingData(
            f"no corpus '{path}': write emend covariance --model M --corpus FILES, with files of local text, {KINDS}."
        )
    if path.suffix not in (".txt", ".jsonl"):
        raise BadSettings(f"corpus '{path}' has an unknown suffix: give {KINDS}.")
    return lambda: _lines(path)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield line.strip() if path.suffix == ".txt" else _text(line, f"{path}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}.") from error


def _text(line: str, where: str) -> str:
    text = parse_object(line, where).get(FIELD)
    if not isinstance(text, str):
        raise BadData(f"{where}: no field '{FIELD}' with a text: each line is an object with one.")
    return text


def _dataset(source: str) -> Callable[[], Iterator[str]]:
    name, _, rest = source.removeprefix(HUB).partition(":")
    config, _, split = rest.partition(":")
    if not name:
        raise BadSettings(f"corpus '{source}' names no dataset: give {KINDS}.")
    if importlib.util.find_spec("datasets") is None:
        raise MissingExtra(
            f"corpus '{source}' needs a package: pip install 'emend[datasets]'; or give files of local text, {KINDS}."
        )

    def stream() -> Iterator[str]:
        for row in _rows(source, name, config or None, split or "train"):
            if not isinstance(row.get(FIELD), str):
                raise BadData(f"corpus '{source}': its rows have no field '{FIELD}', seen {', '.join(map(str, row))}.")
            if row[FIELD].strip():
                yield row[FIELD]

    return stream


def _rows(source: str, name: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
    """Stream of the rows of a dataset; it is never in memory as a whole."""
    import datasets

    try:
        yield from datasets.load_dataset(name, config, split=split, streaming=True)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        line = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
        raise FetchFailed(f"corpus '{source}' cannot be read: {line}. Give files of local text instead.") from error
