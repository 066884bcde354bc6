"""Triplets that `emend extract` stored, in the place of the documents that they were read out of."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from emend.editors.base import Demonstration
from emend.evals.benchmarks.files import sha256
from emend.evals.case import Benchmark, Case
from emend.memory.edit import Edit, FrozenModel, Triplet
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.probe import Probe, Usage
from emend.memory.registry import nearest

OPTION = "triples"
UNTOLD = "no_triplet"
"""Tag of a probe none of whose documents gave a triplet."""
EXTRACTED = ("extract", "llm", "tool")
"""The settings in which an editor is given these triplets: AKEW's name for them, and DocTER's two."""
TEXTS = ("document", "event")


class ExtractedDocument(FrozenModel):
    """One line of the file: the triplets of a document, how they were got, and why there are none."""

    document_id: str
    """The id of the edit whose text the document is."""
    method: str
    fingerprint: str
    settings: dict[str, str | int | bool] = {}
    """What the fingerprint is made of; empty in files that were written before it was kept."""
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
        path: what `emend extract --out` wrote.

    Raises:
        MissingData: there is no such file.
        BadData: a line is not as it must be.
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
        """How the triplets were got; one name, unless files were joined."""
        return sorted({row.method for row in self.documents.values()})

    @property
    def provenance(self) -> dict[str, Any]:
        """File, sha256, method, fingerprints, and what is in it."""
        rows = self.documents.values()
        return {
            "file": self.path.name,
            "sha256": sha256(self.path),
            "method": ", ".join(self.methods),
            "fingerprint": ", ".join(sorted({row.fingerprint for row in rows})),
            "documents": len(rows),
            "triplets": sum(len(row.triplets) for row in rows),
            "documents without a triplet": sum(not row.triplets for row in rows),
        }

    def check(self, setting: str, benchmark: str) -> None:
        """Refuse a file of the other method for DocTER's settings `llm` and `tool`.

        Raises:
            BadSettings: the setting names another method.
        """
        made = {"llm" if method == "llm" else "tool" for method in self.methods}
        if setting in ("llm", "tool") and made - {setting}:
            raise BadSettings(
                f"setting '{setting}' of {benchmark}, but '{self.path.name}' was made with method "
                f"'{', '.join(self.methods)}': use setting '{made.pop()}', or extract with another --method."
            )

    def apply(self, cases: Iterable[Case]) -> Iterator[Case]:
        """The cases with a triplet edit for each triplet of their documents, and probes that name these edits.

        Raises:
            BadData: a document is not in the file.
        """
        for case in cases:
            given = {edit.id: self._edits(edit) for edit in case.edits}
            edits = {edit.id: edit for group in given.values() for edit in group}
            ids = {old: tuple(dict.fromkeys(edit.id for edit in group)) for old, group in given.items()}
            probes = tuple(_renamed(probe, ids) for probe in case.probes)
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
    """A benchmark that also has the settings of `EXTRACTED`; all else is the benchmark's own."""

    def __init__(self, inner: Benchmark, triples: Triples) -> None:
        self._inner = inner
        self._triples = triples
        self._source = _source_of(inner, triples)
        self.settings = (*EXTRACTED, *(name for name in inner.settings if name not in EXTRACTED))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        if setting not in EXTRACTED:
            return self._inner.cases(setting, limit, seed)
        self._triples.check(setting, self._inner.name)
        return self._triples.apply(self._inner.cases(self._source, limit, seed))

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Those of the setting's own name where the benchmark has it, else of its first setting with triplets.

        Of those for triplets taken out the hand-written alone: the others tell a fact in the data's words, so that
        nobody could leave out what stands in the words of an extractor.
        """
        inner = self._inner.settings
        named = setting if setting in inner else next((name for name in ("gold", "triplet") if name in inner), inner[0])
        shown = self._inner.demonstrations(named, seed)
        return tuple(shown) if setting in EXTRACTED else shown

    @property
    def provenance(self) -> dict[str, Any]:
        return {**self._inner.provenance, OPTION: self._triples.provenance}


def _source_of(benchmark: Benchmark, triples: Triples) -> str:
    """The setting that the file's documents are of; the first with texts where that cannot be told."""
    first = text_setting(benchmark)
    for setting in benchmark.settings:
        case = next(iter(benchmark.cases(setting, limit=1)), None)
        if case and any(edit.id in triples.documents and edit.form in TEXTS for edit in case.edits):
            return setting
    return first


def with_triples(benchmark: Benchmark, path: Path | str) -> Benchmark:
    """The benchmark with the triplets of a file in the settings `extract`, `llm` and `tool`, `extract` being its first.

    Raises:
        MissingData: there is no such file.
        BadData: a line of it is not as it must be.
        BadSettings: the benchmark has no documents.
    """
    return cast(Benchmark, _WithTriples(benchmark, Triples(path)))


def text_setting(benchmark: Benchmark, told: str | None = None) -> str:
    """The setting whose edits are texts: the one told, else the benchmark's first such.

    Raises:
        BadSettings: there is none, or the one told has none.
    """
    known = list(benchmark.settings)
    if told is not None and told not in known:
        raise BadSettings(f"{benchmark.name} has no setting '{told}': {nearest(told, known)}")
    for setting in [told] if told else known:
        if any(edit.form in TEXTS for case in benchmark.cases(setting, limit=1) for edit in case.edits):
            return setting
    raise BadSettings(
        f"{benchmark.name} has no documents to extract from{f' in setting {told!r}' if told else ''}: its settings are "
        f"{', '.join(known)}."
    )


def triplet_edit(triplet: Triplet, source: Edit) -> Edit:
    """An extracted triplet as an edit that any editor takes, its cloze being the subject and the relation."""
    prompt = f"{{}} {triplet.relation}"
    return Edit.from_triplet(triplet, prompt, time=source.time, language=source.language)


def _renamed(probe: Probe, ids: dict[str, tuple[str, ...]]) -> Probe:
    if not set(probe.edit_ids) & ids.keys():
        return probe
    new = tuple(dict.fromkeys(name for old in probe.edit_ids for name in ids.get(old, (old,))))
    tags = probe.tags if new else probe.tags | {UNTOLD: True}
    return Probe.model_validate(probe.model_dump() | {"id": "", "edit_ids": new, "tags": tags})


def read_extracted(path: Path) -> Iterator[ExtractedDocument]:
    """The lines of the file; a torn last line, of an extraction that was interrupted, is left out.

    Raises:
        BadData: another line cannot be read; names it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadData(f"cannot read '{path}': {error.strerror or error}. Name a file of triplets.") from error
    whole, _, _ = content.rpartition(b"\n")
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield ExtractedDocument.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole line"
            remedy = "Delete the line, and extract again to fill it."
            if first["type"] == "missing" and number == 1:
                remedy = "This is no file that `emend extract` has written: name another one."
            raise BadData(f"{path}, line {number}, field {where}: {first['msg']}. {remedy}") from error
