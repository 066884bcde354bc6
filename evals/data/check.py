"""Check of a folder of a benchmark's files, every fault by file, record and field, and its table of statistics."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import ValidationError

from emend.evals.case import Benchmark
from emend.evals.data.benchmarks import akew, counterfact, docter, elken, mquake, recoe
from emend.evals.data.benchmarks.docter import DIRECTIONS, DOCUMENTS, FACTS, LOCALITY, REASONING, SUCCESS
from emend.evals.data.benchmarks.elken import BLOCKS, EventRow, KnowledgeQuestion
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.recoe import ROWS as RECOE_ROWS
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.rows import BenchmarkRow, data_folder, read_rows, sha256, whole_records
from emend.evals.data.download import SOURCES, SourceLedger, digest_like, source_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, EmendError, MissingData
from emend.memory.files import open_file, without_mark
from emend.memory.json_files import parse_json


class Shape(NamedTuple):
    """File of a benchmark: its possible names, in the order in which the loader looks for them, and how it is read."""

    names: tuple[str, ...]
    row: type[BenchmarkRow]
    key: str
    """Field of the file that must be unique; "" for none."""
    options: Mapping[str, str]
    """The options with which the benchmark reads this file."""
    beside: tuple[str, ...] = ()
    """Other files that it reads with these options, each with a shape of its own."""

    def find(self, folder: Path) -> str | None:
        """Return the file's name in the folder, None if it is absent."""
        return next((name for name in self.names if (folder / name).is_file()), None)

    def value(self, row: Any) -> object:
        """The value of the key, which every model but ELKEN's calls `id`."""
        return row.event if self.key == "event" else row.id


_CROSSED = {file: block for block, (_, *files) in docter.DIRECTIONS.items() for file in files}
ELKEN_BLOCKS = ",".join(BLOCKS)
SHAPES: dict[str, list[Shape]] = {
    "akew": [Shape(names, row, "case_id", {"dataset": name}) for name, (row, names) in akew.FILES.items()],
    "docter": [
        Shape((name,), row, "id", {"blocks": block} if (block := _CROSSED.get(name)) else {})
        for name, row in docter.ROWS.items()
    ],
    # The test split looks for its events in the other one, and the knowledge questions follow its cases.
    "elken": [
        Shape(("test.json",), EventRow, "event", {"split": "test", "blocks": ELKEN_BLOCKS}, ("train.json",)),
        Shape(("train.json",), EventRow, "event", {"split": "train", "blocks": ELKEN_BLOCKS}),
        Shape(
            elken.KNOWLEDGE_FILES,
            KnowledgeQuestion,
            "",
            {"blocks": elken.KNOWLEDGE},
            ("test.json", "train.json"),
        ),
    ],
    "recoe": [
        Shape((f"{scheme}.json", recoe.AWSLABS.format(scheme=scheme)), row, "", {"schemes": scheme})
        for scheme, row in RECOE_ROWS.items()
    ],
    "mquake": [Shape(names, ChainRow, "case_id", {"dataset": name}) for name, names in mquake.DATASETS.items()],
    "counterfact": [
        Shape(names, row, "case_id", {"dataset": name}) for name, (row, names) in counterfact.DATASETS.items()
    ],
}


def other_datasets(benchmark: str, folder: Path | None, options: Mapping[str, str]) -> list[str]:
    """Return the values of the option `dataset` for which a folder has a file, and which these options do not name."""
    if folder is None:
        return []
    names = [shape.options.get("dataset", "") for shape in SHAPES.get(benchmark, ()) if shape.find(folder)]
    return [name for name in dict.fromkeys(names) if name and name != options.get("dataset")]


LONGEST = 80


class Fault(FrozenModel):
    """A fault of a file; `record` is its index in the file, from 0, or an id."""

    file: str
    record: str = ""
    field: str = ""
    problem: str
    value: str = ""


def records(path: Path, name: str) -> tuple[list[object], Fault | None]:
    """Read the records of a JSON file, a list or `{"data": [...]}`; of a file that is cut off, those before the cut."""
    with open_file(path, links=True) as file:
        raw = without_mark(file.read())
    try:
        content = parse_json(raw, "not whole")
    except BadData as error:
        text = raw.decode("utf-8", "replace")
        whole = [] if "\ufffd" in text else whole_records(text)[0]
        problem = f"{error} {len(whole)} whole records before it. Fetch the file again"
        return whole, Fault(file=name, record=str(len(whole)), problem=problem)
    rows = content.get("data") if isinstance(content, dict) else content
    if isinstance(rows, list):
        return rows, None
    problem = f"a list of records expected, but it holds {type(content).__name__}. Fetch the file again"
    return [], Fault(file=name, problem=problem)


def faults_of_rows(raw: Sequence[object], name: str, shape: Shape, parsed: list[Any]) -> Iterator[Fault]:
    """Yield every fault of every record: invalid fields, and records that occur twice.

    Valid rows are appended to `parsed`.
    """
    first_index: dict[object, int] = {}
    for index, record in enumerate(raw):
        try:
            row = shape.row.model_validate(record)
        except ValidationError as error:
            yield from _field_faults(error, name, index)
            continue
        parsed.append(row)
        if shape.key and (first := first_index.setdefault(value := shape.value(row), index)) != index:
            problem = f"the same as in record {first}; remove one of the two"
            yield Fault(file=name, record=str(index), field=shape.key, problem=problem, value=_short(value))


def _field_faults(error: ValidationError, name: str, index: int) -> Iterator[Fault]:
    details = error.errors(include_url=False)
    prefixes = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    for detail in details:
        if detail["loc"] in prefixes:
            continue  # pydantic also calls a list too short when an item of it is wrong
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
        value = _short(detail["input"])
        yield Fault(file=name, record=str(index), field=field.lstrip("."), problem=detail["msg"], value=value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class FileCheck(FrozenModel):
    """Records, faults and checksum of a file."""

    name: str
    records: int | None = None
    """None for a file without records, such as a prompt."""
    faults: int = 0
    checksum: str = ""
    """`as published`; `as fetched`, or `changed` since; `not the published one`; `not known`."""
    absent: bool = False


class FolderCheck(FrozenModel):
    """Files, faults and counts of a folder; `counts` has per reading what the loader dropped, repaired and tagged."""

    data: str
    folder: str
    files: tuple[FileCheck, ...]
    faults: tuple[Fault, ...]
    counts: tuple[tuple[str, str, int], ...]
    """(reading, what, how many)."""


def check(target: str, data: Path | None = None) -> FolderCheck:
    """Check a benchmark's folder, by the benchmark's name (its usual folder, or `data`) or by the folder.

    Raises:
        BadSettings: neither a benchmark nor a folder, or a folder of an unknown benchmark.
        MissingData: no file of the benchmark is there.
    """
    name, folder = _target(target, data)
    shapes = SHAPES[name]
    if not any(shape.find(folder) for shape in shapes):
        what = f"'{folder}' holds no file of {name}" if folder.is_dir() else f"no folder '{folder}'"
        raise MissingData(f"{what}. Get them with: emend data pull {name}.")
    checksums, faults = _checksums(name, folder)
    tables: dict[str, list[Any]] = {}
    files: list[FileCheck] = []
    for shape in shapes:
        files.append(_file(shape, folder, checksums, tables, faults))
    names = {file.name for file in files}
    others = [FileCheck(name=name, checksum=state) for name, state in checksums.items() if name not in names]
    if name == "docter":
        faults += _docter_links(tables)
    counts = [
        ("", f"questions labelled {label} that {verb} the subject of their document", number)
        for label, numbers in (_subjects(tables).items() if name == "docter" else ())
        for verb, number in zip(("name", "do not literally name"), numbers, strict=True)
    ]
    counts += _counts(name, shapes, folder, faults)
    return FolderCheck(
        data=name,
        folder=str(folder),
        files=tuple(
            file.model_copy(update={"faults": sum(fault.file == file.name for fault in faults)})
            for file in (*files, *others)
        ),
        faults=tuple(faults),
        counts=tuple(counts),
    )


def _file(
    shape: Shape, folder: Path, checksums: Mapping[str, str], tables: dict[str, list[Any]], faults: list[Fault]
) -> FileCheck:
    name = shape.find(folder)
    if name is None:
        return FileCheck(name=shape.names[0], absent=True)
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
        source_of(target)  # its error names the known ones
    recorded = SourceLedger.read(folder).data or folder.resolve().name
    if recorded in SOURCES:
        return recorded, folder
    fitting = [name for name in SOURCES if any(shape.find(folder) for shape in SHAPES[name])]
    if len(fitting) == 1:
        return fitting[0], folder
    of = f"of {' or '.join(fitting)}" if fitting else "of no known benchmark"
    raise BadSettings(f"'{folder}' holds files {of}: name it, as in emend data check akew --data {folder}.")


def _checksums(name: str, folder: Path) -> tuple[dict[str, str], list[Fault]]:
    """Return the state of each file with a known checksum, and a fault for each that changed since it was fetched.

    A file of the user's own, such as a part of the published one, is no fault: only its records count.
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
    """Yield the faults between DocTER's files."""
    ids = {name: {row.id for row in rows} for name, rows in tables.items()}
    linked = [(SUCCESS, DOCUMENTS), (LOCALITY, DOCUMENTS), (SUCCESS, FACTS)]
    linked += [(queries, documents) for _, documents, queries in DIRECTIONS.values()]
    for tests, edits in linked:
        if tests in ids and edits in ids:
            for number in sorted(ids[tests] - ids[edits]):
                yield Fault(file=tests, record=f"id {number}", field="id", problem=f"{edits} has no record of this id")
    for label, (same, other) in _subjects(tables).items():
        if same < other:
            problem = (
                f"{other} of {same + other} questions labelled {label} do not name the subject of their document, "
                "which is that of the same id for True and of the next for False; fetch the published file again"
            )
            yield Fault(file=REASONING, field="id", problem=problem)
    labels = {row.label for row in tables.get(REASONING, ())}
    if len(labels) == 1:
        problem = f"every label is {labels.pop()}: a constant answer would be right everywhere"
        yield Fault(file=REASONING, field="label", problem=problem)


def _subjects(tables: Mapping[str, list[Any]]) -> dict[str, tuple[int, int]]:
    """By label, how many of DocTER's questions name the subject of their document, and how many do not."""
    subjects = {row.id: row.subject.casefold() for row in tables.get(FACTS, ())}
    questions = [row for row in tables.get(REASONING, ()) if row.document in subjects]
    names = [(row.label, subjects[row.document] in row.src.casefold()) for row in questions]
    return {label: (names.count((label, True)), names.count((label, False))) for label in ("True", "False")}


def _counts(name: str, shapes: list[Shape], folder: Path, faults: list[Fault]) -> Iterator[tuple[str, str, int]]:
    """Yield what the loader itself reads, drops, repairs and tags; nothing for files with faults."""
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
            continue  # other files are needed to read these; they are listed as absent
        except EmendError as error:
            faults.append(Fault(file=files[0], problem=str(error)))
            continue
        yield from ((label, what, count) for what, count in loaded.items())


def _loaded(benchmark: Benchmark) -> dict[str, int]:
    """The number of cases, and of what was dropped, repaired and tagged."""
    provenance = benchmark.provenance
    counts = {"cases": max(_cases(benchmark, setting) for setting in benchmark.settings)}
    for kind in ("dropped", "repaired", "tagged"):
        for what, count in provenance.get(kind, {}).items():
            counts[f"{kind}: {what}"] = count if isinstance(count, int) else len(count)
    return counts


def _cases(benchmark: Benchmark, setting: str) -> int:
    try:
        return len({case.id for case in benchmark.cases(setting)})  # a run asks a repeated case once
    except (MissingData, BadSettings):
        return 0  # the setting needs texts or a file that are absent


Counts = dict[str, float | None]
"""Figure of each quantity."""


class DataFigure(FrozenModel):
    """Cell with the files' figure and the paper's; None where there is no file, or nothing is printed."""

    row: str
    column: str
    here: float | None = None
    paper: float | None = None
    digits: int = 0
    """Decimals that the paper prints."""

    @property
    def agrees(self) -> bool | None:
        """True if both are equal as printed; None if one is missing."""
        if self.here is None or self.paper is None:
            return None
        return self.text(self.here) == self.text(self.paper)

    def text(self, value: float | None) -> str:
        """Format a value as the paper prints it."""
        return "-" if value is None else f"{value:,.{self.digits}f}"


class DataTable(FrozenModel):
    """Table with rows and columns in the paper's order, and notes for the comparison."""

    title: str
    figures: tuple[DataFigure, ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in order."""
        return list(dict.fromkeys(figure.row for figure in self.figures))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(dict.fromkeys(figure.column for figure in self.figures))

    def cell(self, row: str, column: str) -> DataFigure:
        """The figure of a cell."""
        return next(f for f in self.figures if (f.row, f.column) == (row, column))

    def plain(self) -> Iterator[dict[str, object]]:
        """Yield a JSON row per figure."""
        for figure in self.figures:
            yield {"table": self.title, **figure.model_dump(exclude={"digits"}), "agrees": figure.agrees}


def stats(name: str, data: Path | None = None) -> DataTable:
    """The paper's table of its data, with the same counts of the files in the folder.

    Raises:
        BadSettings: no such benchmark.
        MissingData: none of its files is in the folder.
        BadData: a record is malformed; `emend data check` names all.
    """
    source_of(name)
    folder = data_folder(name, data)
    present = {shape.names[0]: (file, shape.row) for shape in SHAPES[name] if (file := shape.find(folder))}
    if not present:
        what = f"'{folder}' holds no file of {name}" if folder.is_dir() else f"no folder '{folder}'"
        raise MissingData(f"{what}. Get them with: emend data pull {name}.")
    rows = {first: read_rows(folder / file, row) for first, (file, row) in present.items()}
    table = tomllib.loads(Path(__file__).with_name("stats.toml").read_text("utf-8"))[name]
    figures, notes = [], []
    for entry in table["entries"]:
        whole = all(file in rows for file in entry["files"])
        here = COUNTS[name]([row for file in entry["files"] for row in rows[file]]) if whole else {}
        printed = entry.get("printed", {})
        for quantity in table["quantities"]:
            place = (quantity, entry["name"]) if "transposed" in table else (entry["name"], quantity)
            digits = table.get("digits", {}).get(quantity, 0)
            value, paper = here.get(quantity), printed.get(quantity)
            figures.append(DataFigure(row=place[0], column=place[1], here=value, paper=paper, digits=digits))
            if quantity == table["counted"] and value and paper and value < paper:
                notes.append(f"{entry['name']}: a part, {value:,} of {paper:,} {table.get('unit', 'records')}")
    return DataTable(title=table["title"], figures=tuple(figures), notes=(*notes, *table.get("notes", ())))


def _akew(rows: Sequence[Any]) -> Counts:
    edits = [edit for row in rows for edit in row.requested_rewrite]
    triplets = [triplet for edit in edits for triplet in edit.triplets]
    return {
        "edits": len(edits),
        "multi-hop": sum(row.hops > 0 for row in rows) or None,
        "fact": _mean_words(edit.fact for edit in edits),
        "text": _mean_words(edit.fact_new_uns for edit in edits),
        "triplet": _mean_words(triplet.text for triplet in triplets),
        "per edit": fmean(len(edit.unsfact_triplets_GPT) for edit in edits) if edits else None,
    }


def _mean_words(texts: Iterable[str]) -> float | None:
    lengths = [len(text.split()) for text in texts]
    return fmean(lengths) if lengths else None


def _elken(rows: Sequence[Any]) -> Counts:
    return {
        "event edits": sum(bool(row.tendency.qas or row.tendency.local_qas) for row in rows),
        "facts, in scope": sum(len(row.fact.qas) for row in rows),
        "facts, out of scope": sum(len(row.fact.local_qas) for row in rows),
        "tendency, in scope": sum(len(row.tendency.qas) for row in rows),
        "tendency, out of scope": sum(len(row.tendency.local_qas) for row in rows),
    }


def _recoe(rows: Sequence[Any]) -> Counts:
    return {
        "examples": len(rows),
        "atomic facts": sum(len(fact.atomic_facts) for row in rows for fact in row.facts),
        "before the change": sum(len(fact.atomic_facts) for row in rows for fact in row.known),
    }


def _docter(rows: Sequence[Any]) -> Counts:
    """`prompts` are a record's query with its paraphrases, or all its queries; None for documents."""
    if any(hasattr(row, "paraphrase_query") for row in rows):
        prompts = sum(1 + len(row.paraphrase_query) for row in rows)
    elif any(hasattr(row, "query") for row in rows):
        prompts = sum(len(row.query) for row in rows)
    else:
        prompts = sum(hasattr(row, "label") for row in rows)
    return {"instances": len(rows), "prompts": prompts or None}


def _mquake(rows: Sequence[Any]) -> Counts:
    edits = sum(len(row.requested_rewrite) for row in rows)
    return {"instances": len(rows), "edits": edits} | {
        f"{hops} hops": sum(row.hops == hops for row in rows) for hops in (2, 3, 4)
    }


def _counterfact(rows: Sequence[Any]) -> Counts:
    """A row of EasyEdit's form has one paraphrase and one neighbour."""
    return {
        "records": len(rows),
        "paraphrases": sum(len(getattr(row, "paraphrase_prompts", ("",))) for row in rows),
        "neighbours": sum(len(getattr(row, "neighborhood_prompts", ("",))) for row in rows),
    }


COUNTS: dict[str, Callable[[Sequence[Any]], Counts]] = {
    "akew": _akew,
    "docter": _docter,
    "elken": _elken,
    "recoe": _recoe,
    "mquake": _mquake,
    "counterfact": _counterfact,
}
