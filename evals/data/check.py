"""Check of a benchmark's folder, which lists every fault by file, record and field."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emend.evals.case import Benchmark
from emend.evals.data.benchmarks.docter.benchmark import (
    DIRECTIONS,
    DOCUMENTS,
    FACTS,
    LOCALITY,
    REASONING,
    SUCCESS,
)
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.rows import data_folder, sha256, whole_records
from emend.evals.data.download import SOURCES, SourceLedger, digest_like, source_of
from emend.evals.data.shapes import SHAPES, Shape, no_files
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, EmendError, MissingData, problem_of
from emend.memory.files import read_file, without_mark
from emend.memory.json_files import parse_json

LONGEST = 80


class Fault(FrozenModel):
    """A fault in a file; `record` is an id, or the record's index in the file, counted from 0."""

    file: str
    record: str = ""
    field: str = ""
    problem: str
    value: str = ""


def records(path: Path, name: str) -> tuple[list[object], Fault | None]:
    """Read the records of a JSON file, a list or `{"data": [...]}`; if the file is truncated, those
    before the cut.
    """
    raw = without_mark(read_file(path, links=True))
    try:
        content = parse_json(raw, "not whole")
    except BadData as error:
        text = raw.decode("utf-8", "replace")
        whole = [] if "\ufffd" in text else whole_records(text)[0]
        problem = f"{error} {len(whole)} whole records before it. Fetch the file again"
        return whole, Fault(file=name, record=str(len(whole)), problem=problem)
    rows = content.get("data") if isinstance(content, dict) else content
    if isinstance(rows, list):
        empty = Fault(file=name, problem="it contains no record. Fetch the file again")
        return rows, None if rows else empty
    problem = (
        f"a list of records expected, but it holds {type(content).__name__}. Fetch the file again"
    )
    return [], Fault(file=name, problem=problem)


def faults_of_rows(
    raw: Sequence[object], name: str, shape: Shape, parsed: list[Any]
) -> Iterator[Fault]:
    """Yield every fault of every record: invalid fields and duplicate records.

    Valid rows are appended to `parsed`.
    """
    first_index: dict[object, int] = {}
    for index, record in enumerate(raw):
        if shape.row is None:
            return
        try:
            row = shape.row.model_validate(record)
        except ValidationError as error:
            yield from _field_faults(error, name, index)
            continue
        parsed.append(row)
        if (
            shape.key
            and (first := first_index.setdefault(value := shape.value(row), index)) != index
        ):
            problem = f"the same as in record {first}; remove one of the two"
            yield Fault(
                file=name, record=str(index), field=shape.key, problem=problem, value=_short(value)
            )


def _field_faults(error: ValidationError, name: str, index: int) -> Iterator[Fault]:
    details = error.errors(include_url=False)
    prefixes = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    for detail in details:
        if detail["loc"] in prefixes:
            continue  # pydantic also reports a list as too short if one of its items is invalid
        field = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]
        )
        value = _short(detail["input"])
        yield Fault(
            file=name,
            record=str(index),
            field=field.lstrip("."),
            problem=problem_of(detail),
            value=value,
        )


def _short(value: object) -> str:
    text = repr(value)
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}..."


class FileCheck(FrozenModel):
    """Number of records, faults and checksum state of a file."""

    name: str
    records: int | None = None
    """None for a file without records, such as a prompt."""
    faults: int = 0
    checksum: str = ""
    """State: `as published`, `as fetched`, `changed`, `not the published one`, or `not known`."""
    absent: bool = False


class FolderCheck(FrozenModel):
    """Files, faults and counts of a folder; `counts` has what the loader dropped, repaired and
    tagged, for each set of options.
    """

    data: str
    folder: str
    files: tuple[FileCheck, ...]
    faults: tuple[Fault, ...]
    counts: tuple[tuple[str, str, int], ...]
    """Tuples of loader options, counted thing, and count."""


def check(target: str, data: Path | None = None) -> FolderCheck:
    """Check a benchmark's folder, given by the benchmark's name (its default folder, or `data`) or
    by its path.

    Raises:
        BadSettings: the target is neither a benchmark nor a folder, or a folder of an unknown
            benchmark.
        MissingData: the folder has no file of the benchmark.
    """
    name, folder = _target(target, data)
    shapes = SHAPES[name]
    if not any(shape.find(folder) for shape in shapes):
        raise no_files(name, folder)
    checksums, faults = _checksums(name, folder)
    tables: dict[str, list[Any]] = {}
    files: list[FileCheck] = []
    for shape in shapes:
        files.append(_file(shape, folder, checksums, tables, faults))
    names = {file.name for file in files}
    others = [
        FileCheck(name=name, checksum=state)
        for name, state in checksums.items()
        if name not in names
    ]
    if name == "docter":
        faults += _docter_links(tables)
    counts: list[tuple[str, str, int]] = []
    for label, (naming, other) in (_subjects(tables) if name == "docter" else {}).items():
        about = "the subject of their document"
        counts.append(("", f"questions labelled {label} that name {about}", naming))
        counts.append(("", f"questions labelled {label} that do not literally name {about}", other))
    counts += _counts(name, shapes, folder, faults)
    faulty = Counter(fault.file for fault in faults)
    return FolderCheck(
        data=name,
        folder=str(folder),
        files=tuple(
            file.model_copy(update={"faults": faulty[file.name]}) for file in (*files, *others)
        ),
        faults=tuple(faults),
        counts=tuple(counts),
    )


def _file(
    shape: Shape,
    folder: Path,
    checksums: Mapping[str, str],
    tables: dict[str, list[Any]],
    faults: list[Fault],
) -> FileCheck:
    name = shape.find(folder)
    if name is None:
        return FileCheck(name=shape.names[0], absent=True)
    if shape.row is None:
        return FileCheck(name=name, checksum=checksums.get(name, "not known"))
    raw, broken = records(folder / name, name)
    faults += [broken] if broken else []
    tables[name] = []
    faults += faults_of_rows(raw, name, shape, tables[name])
    return FileCheck(name=name, records=len(raw), checksum=checksums.get(name, "not known"))


def _target(target: str, data: Path | None) -> tuple[str, Path]:
    if target in SOURCES:
        return target, data_folder(target, data)
    folder = Path(target).expanduser()
    if not folder.is_dir():
        source_of(target)  # raises an error that lists the known benchmarks
    recorded = SourceLedger.read(folder).data or folder.resolve().name
    if recorded in SOURCES:
        return recorded, folder
    fitting: list[str] = []
    for name in SOURCES:
        if any(shape.find(folder) for shape in SHAPES[name]):
            fitting.append(name)
    if len(fitting) == 1:
        return fitting[0], folder
    of = "of an unknown benchmark"
    if fitting:
        of = f"of {' or '.join(fitting)}"
    raise BadSettings(
        f"'{folder}' contains files {of}: name the benchmark, as in emend data check akew --data "
        f"{folder}."
    )


def _checksums(name: str, folder: Path) -> tuple[dict[str, str], list[Fault]]:
    """Return the state of each file with a known checksum, and a fault for each that changed since
    it was fetched.

    A file of the user's own, such as a subset of the published one, is not a fault; only its
    records are checked.
    """
    states: dict[str, str] = {}
    faults = []
    for remote in source_of(name).remotes:
        if remote.digest and (folder / remote.name).is_file():
            same = digest_like(folder / remote.name, remote.digest) == remote.digest
            states[remote.name] = "as published" if same else "not the published one"
    for file, entry in SourceLedger.read(folder, name).files.items():
        if states.get(file) == "as published" or not (folder / file).is_file():
            continue
        actual = sha256(folder / file)
        states[file] = "as fetched" if actual == entry.sha256 else "changed"
        if actual != entry.sha256:
            problem = f"changed since it was fetched: sha256 {actual}, expected {entry.sha256}"
            faults.append(Fault(file=file, problem=problem))
    return states, faults


def _docter_links(tables: Mapping[str, list[Any]]) -> Iterator[Fault]:
    """Yield inconsistencies between DocTER's files."""
    ids: dict[str, set[int]] = {}
    for name, rows in tables.items():
        ids[name] = {row.id for row in rows}
    linked = [(SUCCESS, DOCUMENTS), (LOCALITY, DOCUMENTS), (SUCCESS, FACTS)]
    linked += [(queries, documents) for _, documents, queries in DIRECTIONS.values()]
    for tests, edits in linked:
        if tests in ids and edits in ids:
            for number in sorted(ids[tests] - ids[edits]):
                yield Fault(
                    file=tests,
                    record=f"id {number}",
                    field="id",
                    problem=f"{edits} has no record of this id",
                )
    for label, (same, other) in _subjects(tables).items():
        if same < other:
            problem = (
                f"{other} of {same + other} questions labelled {label} do not name the subject of "
                "their document, which has the same id for True and the next id for False; fetch "
                "the published file again"
            )
            yield Fault(file=REASONING, field="id", problem=problem)
    labels = {row.label for row in tables.get(REASONING, ())}
    if len(labels) == 1:
        problem = f"every label is {labels.pop()}: a constant answer would be right everywhere"
        yield Fault(file=REASONING, field="label", problem=problem)


def _subjects(tables: Mapping[str, list[Any]]) -> dict[str, tuple[int, int]]:
    """Return, for each label, how many of DocTER's questions name the subject of their document,
    and how many do not.
    """
    subjects = {row.id: row.subject.casefold() for row in tables.get(FACTS, ())}
    questions = [row for row in tables.get(REASONING, ()) if row.document in subjects]
    names = [(row.label, subjects[row.document] in row.src.casefold()) for row in questions]
    return {
        label: (names.count((label, True)), names.count((label, False)))
        for label in ("True", "False")
    }


def _counts(
    name: str, shapes: list[Shape], folder: Path, faults: list[Fault]
) -> Iterator[tuple[str, str, int]]:
    """Yield the numbers of rows that the loader reads, drops, repairs and tags; nothing for files
    with faults.
    """
    readings: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for shape in shapes:
        if (file := shape.find(folder)) is not None:
            readings.setdefault(tuple(shape.options.items()), []).extend((file, *shape.beside))
    for options, files in readings.items():
        if any(fault.file in files for fault in faults):
            continue
        label = ", ".join(f"{key}={value}" for key, value in options)
        try:
            loaded = _loaded(BENCHMARKS.load(name)(folder, dict(options)))
        except MissingData:
            continue  # reading needs further files, which are already listed as absent
        except EmendError as error:
            faults.append(Fault(file=files[0], problem=str(error)))
            continue
        yield from ((label, what, count) for what, count in loaded.items())


def _loaded(benchmark: Benchmark) -> dict[str, int]:
    """Return the numbers of cases and of dropped, repaired and tagged rows."""
    provenance = benchmark.provenance
    counts = {"cases": max(_cases(benchmark, setting) for setting in benchmark.settings)}
    for kind in ("dropped", "repaired", "tagged"):
        for what, count in provenance.get(kind, {}).items():
            counts[f"{kind}: {what}"] = count if isinstance(count, int) else len(count)
    return counts


def _cases(benchmark: Benchmark, setting: str) -> int:
    try:
        # a run evaluates duplicate cases only once
        return len({case.id for case in benchmark.cases(setting)})
    except (MissingData, BadSettings):
        return 0  # the setting needs texts or a file that are missing
