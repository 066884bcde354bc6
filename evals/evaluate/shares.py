"""Folders of a run's shares: their manifests must agree, and each unit must be one of the run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Record
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
from emend.evals.log.manifest import Manifest, SharePart, changes, decisive_fields
from emend.evals.log.records import parse_fields, read_errors
from emend.memory.errors import BadData, BadSettings
from emend.memory.json_files import JsonLine, parse_lines

REMEDY = "Restore the file from a copy, or evaluate the share again in another folder."


# Position of a unit in the merged run: numbers of setting, repeat, editor, checkpoint and case.
UnitPosition = tuple[int, int, int, int, int]


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
    """Manifest of the first share, with the case numbers by setting and id that all shares have in
    common.
    """

    manifest: Manifest
    cases: dict[tuple[str, str], int]

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> "SharePlan":
        """Make the plan from the folder of one share.

        Raises:
            BadData: the share's list of cases is damaged.
        """
        lines = (line.fields for line in lines_of(folder, CASES))
        return cls(manifest, {(each["setting"], each["case"]): each["number"] for each in lines})

    def position_of(self, record: Record) -> UnitPosition | None:
        """Return the position of a record's unit; None if the run has no such unit."""
        settings, config = [*self.manifest.cases], self.manifest.config
        case = self.cases.get((record.setting, record.case))
        if case is None or record.setting not in settings or record.editor not in config.editors:
            return None
        setting, editor = settings.index(record.setting), config.editors.index(record.editor)
        return setting, record.repeat, editor, record.checkpoint, case


@dataclass
class ShareFolder:
    """A share's folder, with the positions of its finished units and events in its files."""

    path: Path
    manifest: Manifest
    part: SharePart
    units: dict[str, tuple[UnitPosition, LineSpan]] = field(default_factory=dict)
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
            self.units[unit.head.unit] = self._position(plan, unit.head, unit_keys), unit.lines
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

    def _position(self, plan: SharePlan, record: Record, unit_keys: set[str]) -> UnitPosition:
        position = plan.position_of(record)
        if position is not None and record.unit not in unit_keys:
            return position
        # A run writes neither; files that were copied from share to share do.
        reason = "does not belong to this run" if position is None else "occurs twice"
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
        shares[part.number] = ShareFolder(folder, manifest, part)
    ordered = [shares[number] for number in sorted(shares)]
    for share in ordered[1:]:
        _refuse_other_run(ordered[0], share)
        if not any_versions:
            _refuse_other_versions(ordered[0], share)
    return ordered


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
