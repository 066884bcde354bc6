"""Shares of a run: the partition of its cases or passes by a digest, and their folders, checked to be of one run."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Record, pass_id, unit_key
from emend.evals.config.run_config import Share
from emend.evals.log.lines import CASES, ERRORS, EVENTS, RECORDS, SCHEMAS, complete_units, parser_of, record_head
from emend.evals.log.manifest import MANIFEST, Manifest, SharePart, changes, decisive_fields
from emend.evals.log.records import parse_fields, read_errors
from emend.memory.edit import content_id
from emend.memory.errors import BadData, BadSettings
from emend.memory.json_files import JsonLine, parse_lines

T = TypeVar("T")
PASSES = "passes"
"""Name under which passes are dealt, in place of a setting."""


@dataclass(frozen=True)
class Partition:
    """The portions of `size` neighbouring cases that one share evaluates: by setting, true for those dealt to it.

    Only a byte per portion is held, and cases are streamed.
    """

    size: int
    portions: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, share: Share, ids: Mapping[str, Iterable[str]], size: int = 1) -> "Partition":
        """Deal portions out round-robin, sorted by the digest of their ids, going on from setting to setting.

        Args:
            share: the one to deal to.
            ids: those of the cases, by setting, in their order.
            size: number of neighbouring cases that must stay together.

        Raises:
            BadSettings: there are fewer portions than shares.
        """
        portions, dealt = {}, 0
        for name, stream in ids.items():
            order = np.argsort(np.fromiter(_digests(stream, size), np.uint64), kind="stable")
            portions[name] = np.zeros(len(order), np.bool_)
            portions[name][order[(share.number - 1 - dealt) % share.of :: share.of]] = True
            dealt += len(order)
        if dealt < share.of:
            together = "passes" if PASSES in ids else f"portions of {size} cases" if size > 1 else "cases"
            raise BadSettings(
                f"--share {share}: this run has {dealt} {together} to deal out, too few for {share.of} shares: "
                f"give at most {dealt}."
            )
        return cls(size, portions)

    def pick(self, name: str, stream: Iterable[T], size: int | None = None) -> Iterator[T]:
        """Yield the dealt ones of a setting's cases, or of its groups, `size` of which are a portion."""
        number, portions = size or self.size, self.portions[name]
        return (item for place, item in enumerate(stream) if portions[place // number])

    def count(self, name: str, cases: int) -> int:
        """Return the number of dealt cases among the first so many of a setting."""
        portions = self.portions[name]
        missing = len(portions) * self.size - cases if len(portions) and portions[-1] else 0
        return int(portions.sum()) * self.size - missing

    def has(self, name: str, place: int) -> bool:
        """Return whether the case at that place, from 0, is dealt."""
        return bool(self.portions[name][place // self.size])


def pass_ids(settings: Iterable[str], repeats: int, editors: Iterable[str]) -> Iterator[str]:
    """Yield an id for each pass of a run, in their order: by setting, repeat and editor."""
    return map(" ".join, product(settings, map(str, range(repeats)), editors))


def _digests(ids: Iterable[str], size: int) -> Iterator[int]:
    """Yield a number of 64 bits for each portion."""
    stream = iter(ids)
    while portion := tuple(islice(stream, size)):
        yield int.from_bytes(hashlib.sha256("\n".join(portion).encode()).digest()[:8])


REMEDY = "Restore the file from a copy, or evaluate the share anew in another folder."
MAX_REPEATS = 10_000


class Place(NamedTuple):
    """Position of a unit in the merged run: its pass, the checkpoint, and the number of its case."""

    pass_number: int
    checkpoint: int
    case: int


class LineSpan(NamedTuple):
    """Neighbouring lines of a share's file, by offset of their start and end."""

    start: int
    end: int


class FinishedUnit(NamedTuple):
    """A unit whose records are all there: its first record, a digest of its probes' ids, and where its lines are."""

    head: Record
    probes: str
    lines: LineSpan


@dataclass
class SharePlan:
    """Manifest of the first share, and the numbers of passes and cases, which all shares have in common.

    `keys` are the ids of passes by number; `probes` has number and digest of the probes of the cases seen so far.
    """

    manifest: Manifest
    cases: dict[tuple[str, str], int]
    passes: dict[tuple[str, int, str], int]
    keys: Sequence[str]
    probes: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> "SharePlan":
        """Make the plan from the folder of one share.

        Raises:
            BadData: its list of cases is damaged.
        """
        cases = read_cases(folder, manifest)
        config = manifest.config
        if config.repeats > MAX_REPEATS:
            raise BadData(f"'{folder}': {config.repeats} repeats, and at most {MAX_REPEATS} can be merged.")
        triples = list(product(manifest.cases, range(config.repeats), config.editors))
        keys = [
            pass_id(editor, manifest.editors[setting][editor], manifest.model, setting, manifest.mode, repeat)
            for setting, repeat, editor in triples
        ]
        return cls(manifest, cases, {triple: number for number, triple in enumerate(triples)}, keys)

    def place_of(self, record: Record) -> Place | None:
        """Return the position of a record's unit; None if the run has no such unit, or another key for it."""
        number = self.passes.get((record.setting, record.repeat, record.editor))
        case = self.cases.get((record.setting, record.case))
        if number is None or case is None or record.checkpoint < 0:
            return None
        is_of_run = record.unit == unit_key(record.case, self.keys[number], record.checkpoint)
        return Place(number, record.checkpoint, case) if is_of_run else None

    def has_same_probes(self, unit: FinishedUnit) -> bool:
        """Return whether a unit has the probes of the units of its case before it, of any editor."""
        probes = unit.head.of, unit.probes
        return self.probes.setdefault((unit.head.setting, unit.head.case), probes) == probes

    def check_probes(self) -> None:
        """Compare the number of probes of all units that were seen with that of the manifest.

        Raises:
            BadData: a setting has others.
        """
        for setting, listed in self.manifest.cases.items():
            counts = [count for (name, _), (count, _) in self.probes.items() if name == setting]
            if sum(counts) > listed.probes or (len(counts) == listed.cases and sum(counts) != listed.probes):
                raise BadData(
                    f"{RECORDS} of the shares has {sum(counts)} probes of {len(counts)} cases in setting '{setting}', "
                    f"and the manifests count {listed.probes} of {listed.cases}. {REMEDY}"
                )

    def membership(self, part: SharePart) -> Callable[[Place, str], bool]:
        """Return the function that says whether a unit of a setting belongs to that share.

        Raises:
            BadSettings: there are more shares than parts.
        """
        share, config = Share(part.number, part.of), self.manifest.config
        if self.manifest.mode.startswith("sequential"):
            passes = Partition.of(share, {PASSES: pass_ids(self.manifest.cases, config.repeats, config.editors)})
            return lambda place, setting: passes.has(PASSES, place.pass_number)
        ids: dict[str, list[str]] = {setting: [] for setting in self.manifest.cases}
        for setting, case in self.cases:
            ids[setting].append(case)
        partition = Partition.of(share, ids, part.together)
        return lambda place, setting: partition.has(setting, place.case - 1)


@dataclass
class ShareFolder:
    """A share's folder, and where its finished units and their events are in its files."""

    path: Path
    manifest: Manifest
    part: SharePart
    units: dict[str, tuple[Place, LineSpan]] = field(default_factory=dict)
    events: dict[str, list[LineSpan]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @property
    def unfinished(self) -> int:
        """Number of units that were neither finished nor failed."""
        return max(0, self.part.units - len(self.units) - len(self.failed))

    def index(self, plan: SharePlan) -> None:
        """Find the units, and check that each is there once, complete, and dealt to this share.

        Raises:
            BadData: a file is damaged, or holds something else.
        """
        read_cases(self.path, self.manifest)
        dealt = plan.membership(self.part)
        for unit in finished_units(self.path):
            place = self._place(plan, unit)
            if not dealt(place, unit.head.setting):
                raise BadData(
                    f"'{self.path}' is share {self.part.number} of {self.part.of} and holds case {place.case} under "
                    f"'{unit.head.editor}', which belongs to another share. {REMEDY}"
                )
            self.units[unit.head.unit] = place, unit.lines
        for line in lines_of(self.path, EVENTS):
            spans = self.events.setdefault(line.fields.get("unit", ""), [])
            if spans and spans[-1].end == line.offset:
                spans[-1] = LineSpan(spans[-1].start, line.end)
            else:
                spans.append(LineSpan(line.offset, line.end))
        self.failed = {line.fields["unit"] for line in lines_of(self.path, ERRORS)} - self.units.keys()

    def _place(self, plan: SharePlan, unit: FinishedUnit) -> Place:
        record, place = unit.head, plan.place_of(unit.head)
        if place is not None and record.unit not in self.units and plan.has_same_probes(unit):
            return place
        reason = "is not of this run"
        if place is not None:
            reason = "is there twice" if record.unit in self.units else "has other probes than another unit of the case"
        raise BadData(
            f"'{self.path / RECORDS}' has unit {record.unit[:40]} of case {record.case[:40]}, editor "
            f"'{record.editor[:40]}', setting '{record.setting[:40]}', which {reason}. {REMEDY}"
        )


def open_shares(folders: Sequence[Path], any_versions: bool = False) -> list[ShareFolder]:
    """Read the manifests, and return the shares by their number.

    Args:
        folders: of the shares.
        any_versions: accept shares that were evaluated with other versions of packages.

    Raises:
        BadData: one is no run folder, or its manifest is damaged.
        BadSettings: one is no share, two are the same share, they are not of one run, or their versions differ.
    """
    shares: dict[int, ShareFolder] = {}
    for folder in folders:
        manifest = Manifest.read(folder)
        part = manifest.share
        if part is None or part.number > part.of:
            raise BadSettings(f"'{folder}' is no share of a run: merge folders that `emend run --share I/N` made.")
        if (same := shares.get(part.number)) is not None:
            raise BadSettings(
                f"'{same.path}' and '{folder}' are both share {part.number} of {part.of}: merge each share once."
            )
        _check_editors(folder, manifest)
        shares[part.number] = ShareFolder(folder, manifest, part)
    ordered = [shares[number] for number in sorted(shares)]
    for share in ordered[1:]:
        _refuse_other_run(ordered[0], share)
        if not any_versions:
            _refuse_other_versions(ordered[0], share)
    return ordered


def read_cases(folder: Path, manifest: Manifest) -> dict[tuple[str, str], int]:
    """Return the numbers of a share's cases by setting and id.

    Raises:
        BadData: the list is damaged, or has other cases than the manifest.
    """
    cases: dict[tuple[str, str], int] = {}
    counts, digests = Counter[str](), {setting: hashlib.sha256() for setting in manifest.cases}
    for line in lines_of(folder, CASES):
        setting, case, number = line.fields["setting"], line.fields["case"], line.fields["number"]
        counts[setting] += 1
        if setting not in digests or number != counts[setting]:
            raise BadData(f"'{folder / CASES}', line {line.number}: a case that its manifest does not count. {REMEDY}")
        digests[setting].update(case.encode())
        cases[setting, case] = number
    for setting, listed in manifest.cases.items():
        if counts[setting] != listed.cases or digests[setting].hexdigest()[:16] != listed.digest:
            raise BadData(f"'{folder / CASES}' lists other cases of '{setting}' than its manifest. {REMEDY}")
    return cases


def _check_editors(folder: Path, manifest: Manifest) -> None:
    if any(manifest.editors.get(setting, {}).keys() != set(manifest.config.editors) for setting in manifest.cases):
        raise BadData(
            f"'{folder / MANIFEST}' has settings for other editors than its configuration names "
            f"({', '.join(manifest.config.editors)[:80]}). {REMEDY}"
        )


def _refuse_other_versions(first: ShareFolder, share: ShareFolder) -> None:
    if changed := "; ".join(changes(first.manifest.versions, share.manifest.versions)):
        raise BadSettings(
            f"'{first.path}' and '{share.path}' were evaluated with other versions ({changed}), which can change "
            "scores: evaluate one anew with those of the other, or accept this with --any-versions."
        )


def _refuse_other_run(first: ShareFolder, share: ShareFolder) -> None:
    then, now = (
        decisive_fields(each.manifest.model_dump(mode="json"))
        | {"share": f"one of {each.part.of}", "portions": each.part.together}
        for each in (first, share)
    )
    if changed := "; ".join(changes(then, now)):
        raise BadSettings(
            f"'{first.path}' and '{share.path}' are shares of different runs ({changed}): merge one run's."
        )


def finished_units(folder: Path) -> Iterator[FinishedUnit]:
    """Yield each unit whose records are all there.

    Raises:
        BadData: there is no file, or a line that is not torn cannot be read; names file, line and field.
    """
    for unit in complete_units(lines_of(folder, RECORDS), lambda line: record_head(line.fields)):
        first = unit[0].fields
        for line in unit:
            if _heads(line.fields) != _heads(first):
                raise BadData(
                    f"'{folder / RECORDS}', line {line.number}: it is not of the unit that it names. {REMEDY}"
                )
        probes = content_id([line.fields.probe for line in unit])
        yield FinishedUnit(first, probes, LineSpan(unit[0].offset, unit[-1].end))


def _heads(record: Record) -> tuple[Any, ...]:
    return record.case, record.setting, record.editor, record.repeat, record.checkpoint


def lines_of(folder: Path, name: str, parse: Callable[[bytes, str], Any] | None = None) -> Iterator[JsonLine]:
    """Yield the whole lines of a share's file, by the schema of its name; no file has none.

    Records have their fields alone. A share is read once, so that making its tables would take longer than this.

    Raises:
        BadData: the file is no regular file, or a line cannot be read; names file, line and field.
    """
    path = folder / name
    if name == CASES and not path.exists():
        raise BadData(f"'{folder}' has no {name}. {REMEDY}")
    by_schema = parse_fields if name == RECORDS else parser_of(SCHEMAS[name])
    with read_errors(path):
        try:
            yield from parse_lines(path, parse=parse or by_schema)
        except BadData as error:
            raise BadData(f"{error} {REMEDY}") from error
