"""Stored triplets of `emend extract`, used as edits instead of the documents from which they were
extracted.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from emend.editors.base import Demonstration
from emend.evals.case import Benchmark, Case
from emend.evals.data.benchmarks.rows import sha256
from emend.memory.edit import Edit, FrozenModel, Triplet
from emend.memory.errors import BadData, BadSettings, MissingData, problem_of
from emend.memory.json_files import parse_lines
from emend.memory.probe import Probe, Usage
from emend.memory.registry import nearest

OPTION = "triples"
EMPTY = "documents without a triplet"
# Tag of a probe whose documents yielded no triplet.
NO_TRIPLET = "no_triplet"
# Settings whose edits are extracted triplets: AKEW's name and DocTER's two names.
EXTRACTED = ("extract", "llm", "tool")
TEXTS = ("document", "event")


class ExtractedDocument(FrozenModel):
    """A line of the file: a document's triplets, the extraction method, and the reason if there are
    no triplets.
    """

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
    """Triplets from the file given as the option `triples`.

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
                f"no file '{self.path}' of extracted triplets. Create it with: emend extract "
                f"--out {self.path}"
            )
        self.documents = {row.document_id: row for row in read_extracted(self.path)}

    @property
    def methods(self) -> list[str]:
        """Extraction methods; more than one only if files were joined."""
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
        """Refuse DocTER's settings `llm` and `tool` for a file made with the other method.

        Raises:
            BadSettings: the setting requires another method.
        """
        if setting in ("llm", "tool") and (others := self.used - {setting}):
            raise BadSettings(
                f"setting '{setting}' of {benchmark}, but '{self.path.name}' was made with method "
                f"'{', '.join(self.methods)}': use setting '{others.pop()}', or extract with "
                "another --method."
            )

    def apply(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield the cases with a triplet edit for each triplet of their documents, and probes that
        refer to these edits.

        Raises:
            BadData: a document is not in the file.
        """
        for case in cases:
            edits: dict[str, Edit] = {}
            ids: dict[str, tuple[str, ...]] = {}  # ids of the triplet edits, by document id
            for document in case.edits:
                of_document = {edit.id: edit for edit in self._edits(document)}
                ids[document.id] = tuple(of_document)
                edits |= of_document
            probes = tuple(_with_edits(probe, ids) for probe in case.probes)
            yield Case(
                edits=tuple(edits.values()),
                probes=probes,
                hop_golds=case.hop_golds,
                tags=case.tags,
            )

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
        """Return the file of a setting, and the setting of its documents.

        Raises:
            BadSettings: there are several files, and none or more than one was made with the
                setting's method.
        """
        pairs = list(zip(self._files, self._sources, strict=True))
        if len(pairs) == 1:
            fitting = pairs
        else:
            fitting = [pair for pair in pairs if pair[0].used == {setting}]
        if len(fitting) != 1:
            names = ", ".join(
                f"'{file.path.name}' ({', '.join(file.methods)})" for file, _ in pairs
            )
            raise BadSettings(
                f"setting '{setting}' of {self._inner.name} with the files {names}: give one file "
                "of method llm for the setting 'llm' and one of another method for 'tool', or a "
                "single file."
            )
        return fitting[0]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Return demonstrations of the setting if the benchmark has it, else of its first setting
        with triplets.

        Extracted triplets only get hand-written demonstrations: those from rows state a fact in the
        data's words, so an editor could not detect that it is an applied edit in the extractor's
        words.
        """
        inner = self._inner.settings
        if setting in inner:
            named = setting
        else:
            named = next((name for name in ("gold", "triplet") if name in inner), inner[0])
        demonstrations = self._inner.demonstrations(named, seed)
        if setting in EXTRACTED:
            return tuple(demonstrations)
        return demonstrations

    @property
    def provenance(self) -> dict[str, Any]:
        provenance = [file.provenance for file in self._files]
        return {
            **self._inner.provenance,
            OPTION: provenance[0] if len(provenance) == 1 else provenance,
        }


def _source_of(benchmark: Benchmark, triples: Triples) -> str:
    """Return the setting of the file's documents; if unknown, the first setting with texts."""
    first = text_setting(benchmark)
    for setting in benchmark.settings:
        case = next(iter(benchmark.cases(setting, limit=1)), None)
        if case and any(edit.id in triples.documents and edit.form in TEXTS for edit in case.edits):
            return setting
    return first


def triples_files(value: Path | str) -> list[Triples]:
    """Return the files of the option `triples`: one, or one per method separated by commas.

    Raises:
        MissingData: a file does not exist.
        BadData: a line is malformed.
    """
    if Path(value).expanduser().is_file():
        names = [str(value)]
    else:
        names = str(value).split(",")
    return [Triples(name.strip()) for name in names]


def with_triples(benchmark: Benchmark, path: Path | str) -> Benchmark:
    """Return the benchmark with the triplets of `triples_files` as the first settings: `extract`,
    `llm` and `tool`.

    Raises:
        MissingData: the file does not exist.
        BadData: a line is malformed.
        BadSettings: the benchmark has no documents.
    """
    return cast(Benchmark, _WithTriples(benchmark, triples_files(path)))


def text_setting(benchmark: Benchmark, requested: str | None = None) -> str:
    """Return the requested setting if its edits are texts, else the benchmark's first such setting.

    Raises:
        BadSettings: no setting has texts, or the requested one has none.
    """
    known = list(benchmark.settings)
    if requested is not None and requested not in known:
        raise BadSettings(
            f"{benchmark.name} has no setting '{requested}': {nearest(requested, known)}"
        )
    for setting in [requested] if requested else known:
        if any(
            edit.form in TEXTS for case in benchmark.cases(setting, limit=1) for edit in case.edits
        ):
            return setting
    where = f" in setting {requested!r}" if requested else ""
    raise BadSettings(
        f"{benchmark.name} has no documents to extract from{where}: its settings are "
        f"{', '.join(known)}."
    )


def triplet_edit(triplet: Triplet, source: Edit) -> Edit:
    """Convert an extracted triplet to an edit, with subject and relation as its cloze."""
    prompt = f"{{}} {triplet.relation}"
    return Edit.from_triplet(triplet, prompt, time=source.time, language=source.language)


def _with_edits(probe: Probe, ids: dict[str, tuple[str, ...]]) -> Probe:
    if not set(probe.edit_ids) & ids.keys():
        return probe
    new = tuple(dict.fromkeys(name for old in probe.edit_ids for name in ids.get(old, (old,))))
    tags = probe.tags if new else probe.tags | {NO_TRIPLET: True}
    return Probe.model_validate(probe.model_dump() | {"id": "", "edit_ids": new, "tags": tags})


def read_extracted(path: Path) -> Iterator[ExtractedDocument]:
    """Yield the lines of the file; an incomplete last line of an interrupted extraction is skipped.

    Raises:
        BadData: another line is malformed; the error names it.
    """
    for line in parse_lines(path, links=True):
        try:
            yield ExtractedDocument.model_validate(line.fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole line"
            remedy = "Delete the line, and extract again to restore it."
            if first["type"] == "missing" and line.number == 1:
                remedy = "This is not an output of `emend extract`: name another file."
            raise BadData(
                f"{path}, line {line.number}, field {where}: {problem_of(first)}. {remedy}"
            ) from error
