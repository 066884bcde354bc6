"""Triplets that `emend extract` stored, as edits instead of the documents from which they were extracted."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from emend.editors.base import Demonstration
from emend.evals.case import Benchmark, Case
from emend.evals.data.benchmarks.rows import sha256
from emend.memory.edit import Edit, FrozenModel, Triplet
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.json_files import parse_lines
from emend.memory.probe import Probe, Usage
from emend.memory.registry import nearest

OPTION = "triples"
EMPTY = "documents without a triplet"
NO_TRIPLET = "no_triplet"
"""Tag of a probe whose documents gave no triplet."""
EXTRACTED = ("extract", "llm", "tool")
"""The settings whose edits are these triplets: AKEW's name, and DocTER's two."""
TEXTS = ("document", "event")


class ExtractedDocument(FrozenModel):
    """Line of the file: a document's triplets, the method, and the reason if there are none."""

    document_id: str
    """Id of the edit whose text is the document."""
    method: str
    fingerprint: str
    settings: dict[str, str | int | bool] = {}
    """Settings behind the fingerprint; empty in files of older versions."""
    triplets: tuple[Triplet, ...] = ()
    reason: str = ""
    failed: bool = False
    reply: str = ""
    invalid: int = 0
    repeated: int = 0
    usage: Usage = Usage()


class Triples:
    """The file that the option `triples` names.

    Args:
        path: output of `emend extract --out`.

    Raises:
        MissingData: the file does not exist.
        BadData: a line is malformed.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise MissingData(
                f"no file '{self.path}' of extracted triplets. Make it with: emend extract --out {self.path}"
            )
        self.documents = {row.document_id: row for row in read_extracted(self.path)}

    @property
    def methods(self) -> list[str]:
        """The methods of extraction; one name, unless files were joined."""
        return sorted({row.method for row in self.documents.values()})

    @property
    def used(self) -> set[str]:
        """DocTER's settings for these methods: `llm`, or `tool` for all others."""
        return {"llm" if method == "llm" else "tool" for method in self.methods}

    @property
    def provenance(self) -> dict[str, Any]:
        """File, sha256, method, fingerprints and counts."""
        rows = self.documents.values()
        return {
            "file": self.path.name,
            "sha256": sha256(self.path),
            "method": ", ".join(self.methods),
            "fingerprint": ", ".join(sorted({row.fingerprint for row in rows})),
            "documents": len(rows),
            "triplets": sum(len(row.triplets) for row in rows),
            EMPTY: sum(not row.triplets for row in rows),
        }

    def check(self, setting: str, benchmark: str) -> None:
        """Refuse a file of the other method for DocTER's settings `llm` and `tool`.

        Raises:
            BadSettings: the setting names another method.
        """
        if setting in ("llm", "tool") and (others := self.used - {setting}):
            raise BadSettings(
                f"setting '{setting}' of {benchmark}, but '{self.path.name}' was made with method "
                f"'{', '.join(self.methods)}': use setting '{others.pop()}', or extract with another --method."
            )

    def apply(self, cases: Iterable[Case]) -> Iterator[Case]:
        """The cases with a triplet edit for each triplet of their documents, and probes that name these edits.

        Raises:
            BadData: a document is not in the file.
        """
        for case in cases:
            groups = {edit.id: self._edits(edit) for edit in case.edits}
            edits = {edit.id: edit for group in groups.values() for edit in group}
            ids = {old: tuple(dict.fromkeys(edit.id for edit in group)) for old, group in groups.items()}
            probes = tuple(_with_edits(probe, ids) for probe in case.probes)
            yield Case(edits=tuple(edits.values()), probes=probes, tags=case.tags)

    def _edits(self, edit: Edit) -> list[Edit]:
        row = self.documents.get(edit.id)
        if row is None:
            raise BadData(
                f"{self.path}: no line for document {edit.id} ('{edit.text[:40]}...'). "
                "Finish the file with the same `emend extract` command, without --limit."
            )
        return [triplet_edit(triplet, edit) for triplet in row.triplets]


class _WithTriples:
    """A benchmark with the additional settings of `EXTRACTED`."""

    def __init__(self, inner: Benchmark, files: Sequence[Triples]) -> None:
        self._inner = inner
        self._files = files
        self._sources = [_source_of(inner, file) for file in files]
        self.settings = (*EXTRACTED, *(name for name in inner.settings if name not in EXTRACTED))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        if setting not in EXTRACTED:
            return self._inner.cases(setting, limit, seed)
        triples, source = self._pick(setting)
        triples.check(setting, self._inner.name)
        return triples.apply(self._inner.cases(source, limit, seed))

    def _pick(self, setting: str) -> tuple[Triples, str]:
        """The file of a setting, and the setting of its documents.

        Raises:
            BadSettings: several files, of which none or more than one is of the setting's method.
        """
        pairs = list(zip(self._files, self._sources, strict=True))
        fitting = pairs if len(pairs) == 1 else [pair for pair in pairs if pair[0].used == {setting}]
        if len(fitting) != 1:
            names = ", ".join(f"'{file.path.name}' ({', '.join(file.methods)})" for file, _ in pairs)
            raise BadSettings(
                f"setting '{setting}' of {self._inner.name} with the files {names}: give one file of method llm for "
                "the setting 'llm' and one of another method for 'tool', or a single file."
            )
        return fitting[0]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Demonstrations of the setting if the benchmark has it, else of its first setting with triplets.

        Extracted triplets get the hand-written ones only: those from rows state a fact in the data's words, so that an
        editor could not exclude an applied edit in an extractor's words.
        """
        inner = self._inner.settings
        named = setting if setting in inner else next((name for name in ("gold", "triplet") if name in inner), inner[0])
        demonstrations = self._inner.demonstrations(named, seed)
        return tuple(demonstrations) if setting in EXTRACTED else demonstrations

    @property
    def provenance(self) -> dict[str, Any]:
        provenance = [file.provenance for file in self._files]
        return {**self._inner.provenance, OPTION: provenance[0] if len(provenance) == 1 else provenance}


def _source_of(benchmark: Benchmark, triples: Triples) -> str:
    """Return the setting of the file's documents; the first one with texts where unknown."""
    first = text_setting(benchmark)
    for setting in benchmark.settings:
        case = next(iter(benchmark.cases(setting, limit=1)), None)
        if case and any(edit.id in triples.documents and edit.form in TEXTS for edit in case.edits):
            return setting
    return first


def triples_files(value: Path | str) -> list[Triples]:
    """The files of the option `triples`: one, or one per method with commas between.

    Raises:
        MissingData: a file does not exist.
        BadData: a line is malformed.
    """
    names = [str(value)] if Path(value).expanduser().is_file() else str(value).split(",")
    return [Triples(name.strip()) for name in names]


def with_triples(benchmark: Benchmark, path: Path | str) -> Benchmark:
    """Return the benchmark with the triplets of `triples_files` as the first settings: `extract`, `llm` and `tool`.

    Raises:
        MissingData: the file does not exist.
        BadData: a line is malformed.
        BadSettings: the benchmark has no documents.
    """
    return cast(Benchmark, _WithTriples(benchmark, triples_files(path)))


def text_setting(benchmark: Benchmark, requested: str | None = None) -> str:
    """Return the requested setting if its edits are texts, else the benchmark's first such.

    Raises:
        BadSettings: no setting has texts, or not the requested one.
    """
    known = list(benchmark.settings)
    if requested is not None and requested not in known:
        raise BadSettings(f"{benchmark.name} has no setting '{requested}': {nearest(requested, known)}")
    for setting in [requested] if requested else known:
        if any(edit.form in TEXTS for case in benchmark.cases(setting, limit=1) for edit in case.edits):
            return setting
    where = f" in setting {requested!r}" if requested else ""
    raise BadSettings(f"{benchmark.name} has no documents to extract from{where}: its settings are {', '.join(known)}.")


def triplet_edit(triplet: Triplet, source: Edit) -> Edit:
    """An extracted triplet as an edit; its cloze is the subject and the relation."""
    prompt = f"{{}} {triplet.relation}"
    return Edit.from_triplet(triplet, prompt, time=source.time, language=source.language)


def _with_edits(probe: Probe, ids: dict[str, tuple[str, ...]]) -> Probe:
    if not set(probe.edit_ids) & ids.keys():
        return probe
    new = tuple(dict.fromkeys(name for old in probe.edit_ids for name in ids.get(old, (old,))))
    tags = probe.tags if new else probe.tags | {NO_TRIPLET: True}
    return Probe.model_validate(probe.model_dump() | {"id": "", "edit_ids": new, "tags": tags})


def read_extracted(path: Path) -> Iterator[ExtractedDocument]:
    """Read the lines of the file; the incomplete last line of an interrupted extraction is skipped.

    Raises:
        BadData: another line is malformed; names it.
    """
    for line in parse_lines(path, links=True):
        try:
            yield ExtractedDocument.model_validate(line.fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole line"
            remedy = "Delete the line, and extract again to fill it."
            if first["type"] == "missing" and line.number == 1:
                remedy = "This is no output of `emend extract`: name another file."
            raise BadData(f"{path}, line {line.number}, field {where}: {first['msg']}. {remedy}") from error
