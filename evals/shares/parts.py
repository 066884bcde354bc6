"""The folders of a run's shares: read without changing them, and checked to be shares of one run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from emend.evals.case import Record
from emend.evals.log.config import Share
from emend.evals.log.lines import CASES, ERRORS, EVENTS, RECORDS, SCHEMAS, parser_of
from emend.evals.log.manifest import Manifest, SharePart, changes, decisive_fields
from emend.evals.log.records import read_errors
from emend.evals.log.units import complete_units, record_head
from emend.evals.shares.deal import PASSES, Deal, pass_ids
from emend.memory.errors import BadData, BadSettings
from emend.memory.json_files import JsonLine, JsonLines

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


@dataclass
class SharePlan:
    """Manifest of the first share, and the numbers of passes and cases, which all shares have in common."""

    manifest: Manifest
    cases: dict[tuple[str, str], int]
    passes: dict[tuple[str, int, str], int]

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> "SharePlan":
        """Make the plan from the folder of one share.

        Raises:
            BadData: its list of cases is damaged.
        """
        cases = {
            (line.fields["setting"], line.fields["case"]): line.fields["number"] for line in lines_of(folder, CASES)
        }
        numbers: dict[str, list[int]] = {setting: [] for setting in manifest.cases}
        for (setting, _), number in cases.items():
            numbers.setdefault(setting, []).append(number)
        for setting, listed in numbers.items():
            if setting not in manifest.cases or listed != list(range(1, manifest.cases[setting].cases + 1)):
                raise BadData(f"'{folder / CASES}' lists other cases than its manifest counts. {REMEDY}")
        config = manifest.config
        if config.repeats > MAX_REPEATS:
            raise BadData(f"'{folder}': {config.repeats} repeats, and at most {MAX_REPEATS} can be merged.")
        triples = (
            (setting, repeat, editor)
            for setting in manifest.cases
            for repeat in range(config.repeats)
            for editor in config.editors
        )
        return cls(manifest, cases, {triple: number for number, triple in enumerate(triples)})

    def deal_of(self, part: SharePart) -> Callable[[Place, str], bool]:
        """Return the function that says whether a unit of a setting is dealt to that share.

        Raises:
            BadSettings: there are more shares than parts.
        """
        share, config = Share(part.number, part.of), self.manifest.config
        if self.manifest.mode == "sequential":
            passes = Deal.of(share, {PASSES: pass_ids(self.manifest.cases, config)})
            return lambda place, setting: passes.has(PASSES, place.pass_number)
        ids: dict[str, list[str]] = {setting: [] for setting in self.manifest.cases}
        for setting, case in self.cases:
            ids[setting].append(case)
        deal = Deal.of(share, ids, part.together)
        return lambda place, setting: deal.has(setting, place.case - 1)


@dataclass
class ShareFolder:
    """A share's folder, and where its finished units and their events are in its files."""

    path: Path
    manifest: Manifest
    part: SharePart
    units: dict[str, tuple[Place, LineSpan]] = field(default_factory=dict)
    events: dict[str, list[LineSpan]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    repeated: int = 0
    """Units that are there twice, of which the first counts."""

    @property
    def unfinished(self) -> int:
        """Number of units that were neither finished nor failed."""
        return max(0, self.part.units - len(self.units) - len(self.failed))

    def index(self, plan: SharePlan) -> None:
        """Find the units, and check that each is one that is dealt to this share.

        Raises:
            BadData: a file is damaged, or holds something else.
        """
        dealt = plan.deal_of(self.part)
        for unit, record, lines in finished_units(self.path):
            if unit in self.units:
                self.repeated += 1
                continue
            place = self._place(plan, record)
            if not dealt(place, record.setting):
                raise BadData(
                    f"'{self.path}' is share {self.part.number} of {self.part.of} and holds case {place.case} under "
                    f"'{record.editor}', which belongs to another share. {REMEDY}"
                )
            self.units[unit] = place, lines
        for line in lines_of(self.path, EVENTS):
            spans = self.events.setdefault(line.fields.get("unit", ""), [])
            if spans and spans[-1].end == line.offset:
                spans[-1] = LineSpan(spans[-1].start, line.end)
            else:
                spans.append(LineSpan(line.offset, line.end))
        self.failed = {line.fields["unit"] for line in lines_of(self.path, ERRORS)} - self.units.keys()

    def _place(self, plan: SharePlan, record: Record) -> Place:
        number = plan.passes.get((record.setting, record.repeat, record.editor))
        case = plan.cases.get((record.setting, record.case))
        if number is None or case is None or record.checkpoint < 0:
            raise BadData(
                f"'{self.path / RECORDS}' has a record of case {record.case[:40]}, editor '{record.editor[:40]}', "
                f"setting '{record.setting[:40]}', which is not of this run. {REMEDY}"
            )
        return Place(number, record.checkpoint, case)


def open_shares(folders: Sequence[Path]) -> list[ShareFolder]:
    """Read the manifests, and return the shares by their number.

    Raises:
        BadData: one is no run folder, or its manifest is damaged.
        BadSettings: one is no share, two are the same share, or they are not of one run.
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
        shares[part.number] = ShareFolder(folder, manifest, part)
    ordered = [shares[number] for number in sorted(shares)]
    for share in ordered[1:]:
        _refuse_other_run(ordered[0], share)
    return ordered


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


def finished_units(folder: Path) -> Iterator[tuple[str, Record, LineSpan]]:
    """Yield key, first record and lines of each unit whose records are all there.

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
        yield first.unit, first, LineSpan(unit[0].offset, unit[-1].end)


def _heads(record: Record) -> tuple[Any, ...]:
    return record.case, record.setting, record.editor, record.repeat, record.checkpoint


_RECORD: TypeAdapter[Any] = TypeAdapter(Record)


def lines_of(folder: Path, name: str, schema: TypeAdapter[Any] | None = None) -> Iterator[JsonLine]:
    """Yield the whole lines of a share's file, by the schema of its name; no file has none.

    Raises:
        BadData: the file is no regular file, or a line cannot be read; names file, line and field.
    """
    path = folder / name
    schema = schema or SCHEMAS.get(name, _RECORD)
    if name == CASES and not path.exists():
        raise BadData(f"'{folder}' has no {name}. {REMEDY}")
    with read_errors(path):
        try:
            yield from JsonLines(path, None, parse=parser_of(schema))
        except BadData as error:
            raise BadData(f"{error} {REMEDY}") from error
