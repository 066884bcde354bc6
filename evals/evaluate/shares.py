"""Folders of a run's shares: their manifests must agree, and each unit must be one of the run."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Record, pass_id, unit_key
from emend.evals.log.lines import (
    CASES,
    ERRORS,
    EVENTS,
    RECORDS,
    SCHEMAS,
    complete_units,
    parser_of,
    record_head,
)
from emend.evals.log.manifest import MANIFEST, Manifest, SharePart, changes, decisive_fields
from emend.evals.log.records import parse_fields, read_errors
from emend.memory.errors import BadData, BadSettings
from emend.memory.json_files import JsonLine, parse_lines

REMEDY = "Restore the file from a copy, or evaluate the share again in another folder."
MAX_REPEATS = 10_000


class Place(NamedTuple):
    """Position of a unit in the merged run: numbers of pass, checkpoint and case."""

    pass_number: int
    checkpoint: int
    case: int


class LineSpan(NamedTuple):
    """Consecutive lines of a share's file, as offsets of start and end."""

    start: int
    end: int


class FinishedUnit(NamedTuple):
    """A unit with all its records: the first record, and the position of its lines."""

    head: Record
    lines: LineSpan


@dataclass
class SharePlan:
    """Manifest of the first share, with the case and pass numbers that all shares have in common.

    `keys` holds the pass ids by number.
    """

    manifest: Manifest
    cases: dict[tuple[str, str], int]
    passes: dict[tuple[str, int, str], int]
    keys: Sequence[str]

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> "SharePlan":
        """Make the plan from the folder of one share.

        Raises:
            BadData: the share's list of cases is damaged.
        """
        cases = read_cases(folder)
        config = manifest.config
        if config.repeats > MAX_REPEATS:
            raise BadData(
                f"'{folder}': {config.repeats} repeats, but at most {MAX_REPEATS} can be merged."
            )
        triples = list(product(manifest.cases, range(config.repeats), config.editors))
        keys = [
            pass_id(
                editor,
                manifest.editors[setting][editor],
                manifest.model,
                setting,
                manifest.mode,
                repeat,
            )
            for setting, repeat, editor in triples
        ]
        return cls(manifest, cases, {triple: number for number, triple in enumerate(triples)}, keys)

    def place_of(self, record: Record) -> Place | None:
        """Return the position of a record's unit; None if the run has no such unit or key."""
        number = self.passes.get((record.setting, record.repeat, record.editor))
        case = self.cases.get((record.setting, record.case))
        if number is None or case is None or record.checkpoint < 0:
            return None
        is_of_run = record.unit == unit_key(record.case, self.keys[number], record.checkpoint)
        return Place(number, record.checkpoint, case) if is_of_run else None


@dataclass
class ShareFolder:
    """A share's folder, with the positions of its finished units and events in its files."""

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

    def index(self, plan: SharePlan, unit_keys: set[str]) -> None:
        """Index the units, and check that each is one of the run.

        Args:
            plan: the run's cases and passes.
            unit_keys: units of shares indexed before; this share's are added.

        Raises:
            BadData: a file is damaged, or a unit is unknown or comes twice.
        """
        for unit in finished_units(self.path):
            self.units[unit.head.unit] = self._place(plan, unit.head, unit_keys), unit.lines
            unit_keys.add(unit.head.unit)
        for line in lines_of(self.path, EVENTS):
            spans = self.events.setdefault(line.fields.get("unit", ""), [])
            if spans and spans[-1].end == line.offset:
                spans[-1] = LineSpan(spans[-1].start, line.end)
            else:
                spans.append(LineSpan(line.offset, line.end))
        self.failed = {
            line.fields["unit"] for line in lines_of(self.path, ERRORS)
        } - self.units.keys()

    def _place(self, plan: SharePlan, record: Record, unit_keys: set[str]) -> Place:
        place = plan.place_of(record)
        if place is not None and record.unit not in unit_keys:
            return place
        # A run writes neither; files that were copied from share to share do.
        reason = "does not belong to this run" if place is None else "occurs twice"
        raise BadData(
            f"'{self.path / RECORDS}' has unit {record.unit[:40]} of case {record.case[:40]}, "
            f"editor '{record.editor[:40]}', setting '{record.setting[:40]}', which {reason}. "
            f"{REMEDY}"
        )


def open_shares(folders: Sequence[Path], any_versions: bool = False) -> list[ShareFolder]:
    """Read the manifests of shares, and return the shares ordered by number.

    Args:
        folders: folders of the shares.
        any_versions: accept shares that were evaluated with other versions of packages.

    Raises:
        BadData: a folder is not a run folder, or its manifest is damaged.
        BadSettings: a run is not a share, two are the same share, they belong to different runs, or
            their versions differ.
    """
    shares: dict[int, ShareFolder] = {}
    for folder in folders:
        manifest = Manifest.read(folder)
        part = manifest.share
        if part is None or part.number > part.of:
            raise BadSettings(
                f"'{folder}' is not a share of a run: merge folders that `emend run --share I/N` "
                "made."
            )
        if (same := shares.get(part.number)) is not None:
            raise BadSettings(
                f"'{same.path}' and '{folder}' are both share {part.number} of {part.of}: merge "
                "each share once."
            )
        _check_editors(folder, manifest)
        shares[part.number] = ShareFolder(folder, manifest, part)
    ordered = [shares[number] for number in sorted(shares)]
    for share in ordered[1:]:
        _refuse_other_run(ordered[0], share)
        if not any_versions:
            _refuse_other_versions(ordered[0], share)
    return ordered


def read_cases(folder: Path) -> dict[tuple[str, str], int]:
    """Return a share's case numbers by setting and id.

    Raises:
        BadData: the list is damaged.
    """
    cases: dict[tuple[str, str], int] = {}
    counts = Counter[str]()
    for line in lines_of(folder, CASES):
        setting, case, number = line.fields["setting"], line.fields["case"], line.fields["number"]
        counts[setting] += 1
        if number != counts[setting]:
            raise BadData(
                f"'{folder / CASES}', line {line.number}: case {number} of '{setting}' where "
                f"case {counts[setting]} is expected. {REMEDY}"
            )
        cases[setting, case] = number
    return cases


def _check_editors(folder: Path, manifest: Manifest) -> None:
    if any(
        manifest.editors.get(setting, {}).keys() != set(manifest.config.editors)
        for setting in manifest.cases
    ):
        raise BadData(
            f"'{folder / MANIFEST}' has settings for other editors than its configuration names "
            f"({', '.join(manifest.config.editors)[:80]}). {REMEDY}"
        )


def _refuse_other_versions(first: ShareFolder, share: ShareFolder) -> None:
    if changed := "; ".join(changes(first.manifest.versions, share.manifest.versions)):
        raise BadSettings(
            f"'{first.path}' and '{share.path}' were evaluated with other versions ({changed}), "
            "which can change scores: evaluate one again with the versions of the other, or "
            "accept this with --any-versions."
        )


def _refuse_other_run(first: ShareFolder, share: ShareFolder) -> None:
    then, now = (
        decisive_fields(each.manifest.model_dump(mode="json"))
        | {"share": f"one of {each.part.of}", "portions": each.part.together}
        for each in (first, share)
    )
    if changed := "; ".join(changes(then, now)):
        raise BadSettings(
            f"'{first.path}' and '{share.path}' are shares of different runs ({changed}): merge "
            "one run's."
        )


def finished_units(folder: Path) -> Iterator[FinishedUnit]:
    """Yield each unit whose records are complete.

    Raises:
        BadData: the file is missing, or a line other than a torn one cannot be read; the message
            names file, line and field.
    """
    for unit in complete_units(lines_of(folder, RECORDS), lambda line: record_head(line.fields)):
        yield FinishedUnit(unit[0].fields, LineSpan(unit[0].offset, unit[-1].end))


def lines_of(
    folder: Path, name: str, parse: Callable[[bytes, str], Any] | None = None
) -> Iterator[JsonLine]:
    """Yield the complete lines of a share's file, parsed by the file's schema.

    A missing file has no lines, except for `cases.jsonl`, which is required. Lines are parsed
    directly, since a share is read only once and making its tables would take longer.

    Raises:
        BadData: the file is not a regular file, or a line cannot be read; the message names file,
            line and field.
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
