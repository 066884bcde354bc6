"""Verdicts of a scoring on the records of a run, from the combined votes on each item."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import FiniteFloat

from emend.agents.judging.base import Item
from emend.evals.case import Record
from emend.evals.judging.disputes import DISPUTED
from emend.evals.judging.items import plan
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel
from emend.evals.judging.scorings.earlier import earlier_file
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import Scoring
from emend.evals.judging.votes import NOT_YET, CombinedVerdict, combine
from emend.evals.log.records import json_line, read_models, read_records, replace
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel

if TYPE_CHECKING:
    from emend.graphs.judges.graph import Judge

# File of the verdicts of judges whose code is not installed.
VERDICTS = "verdicts.jsonl"


class OwnVerdict(FrozenModel):
    """Numbers of a user's judge for one record, as a line of `verdicts.jsonl`."""

    unit: str
    probe: str
    kind: str
    item: str = ""
    """Id of the judged item; empty if the record has none."""
    values: dict[str, FiniteFloat]
    unscored: dict[str, str]


def write_own_verdicts(folder: Path, scoring: Scoring, judges: "Mapping[str, Judge]") -> None:
    """Write the numbers of the user's judges, so that the run can be read without their code."""
    lines = []
    for record, items, verdicts in _verdicts(
        folder, scoring, {kind: judges[kind] for kind in scoring.own_judges}
    ):
        for kind, verdict in verdicts.items():
            item = items[kind]
            line = OwnVerdict(
                unit=record.unit,
                probe=record.probe,
                kind=kind,
                item=item.id if isinstance(item, Item) else "",
                values=verdict.values,
                unscored=verdict.unscored,
            )
            lines.append(json_line(line))
    if scoring.own_judges:
        replace(scoring.folder(folder) / VERDICTS, b"".join(lines))


def own_verdicts(folder: Path, scoring: Scoring) -> dict[tuple[str, str], list[OwnVerdict]]:
    """Read the stored numbers of the user's judges, by unit and probe.

    Raises:
        BadData: a line cannot be read.
    """
    verdicts: dict[tuple[str, str], list[OwnVerdict]] = {}
    if not scoring.own_judges:
        return verdicts
    path = scoring.folder(folder) / VERDICTS
    if not path.exists():
        path = folder / earlier_file(scoring, f".{VERDICTS}")
    for _, verdict in read_models(path, OwnVerdict, "Judge the run again."):
        verdicts.setdefault((verdict.unit, verdict.probe), []).append(verdict)
    return verdicts


def judged_records(folder: Path, scoring: Scoring | None) -> Iterator[Record]:
    """Yield the records of a run, with a scoring's numbers and reasons added if there is one.

    Raises:
        BadData: a damaged line.
    """
    if scoring is None:
        yield from read_records(folder)
        return
    stored_verdicts = own_verdicts(folder, scoring)
    for record, _, verdicts in _verdicts(folder, scoring, installed_judges(scoring)):
        for verdict in verdicts.values():
            record = add_verdict(record, verdict)
        for stored in stored_verdicts.get((record.unit, record.probe), ()):
            record = add_verdict(record, CombinedVerdict(stored.values, stored.unscored))
        yield record


def installed_judges(scoring: Scoring) -> "dict[str, Judge]":
    """Load the judges of a scoring by kind, without those that are neither built in nor
    installed.
    """
    return {kind: scoring.panel.load(kind) for kind in scoring.kinds if JUDGES.installed(kind)}


def dispute_counts(folder: Path, scoring: Scoring) -> dict[str, Counter[str]]:
    """Count the accepted, rejected and disputed records by kind of judge.

    Disputed records are counted by who settled the dispute, or as `open`. Kinds whose verdicts
    cannot be disputed are left out.
    """
    counts: dict[str, Counter[str]] = {}
    judges = installed_judges(scoring)
    for _, _, verdicts in _verdicts(folder, scoring, judges):
        for kind, verdict in verdicts.items():
            if DISPUTED not in verdict.values:
                continue
            tally = counts.setdefault(kind, Counter())
            value = verdict.values.get(judges[kind].role.output)
            tally.update({"accepted": int(value == 1.0), "rejected": int(value == 0.0)})
            if verdict.dispute:
                tally[verdict.dispute] += 1
    return counts


def open_disputes(folder: Path, scoring: Scoring, kind: str) -> dict[str, Item]:
    """Return the items of a kind with an open dispute, by id."""
    judges = {name: judge for name, judge in installed_judges(scoring).items() if name == kind}
    disputed: dict[str, Item] = {}
    for _, items, verdicts in _verdicts(folder, scoring, judges):
        item = items.get(kind)
        if isinstance(item, Item) and verdicts[kind].dispute == "open":
            disputed[item.id] = item
    return disputed


def _verdicts(
    folder: Path, scoring: Scoring, judges: "Mapping[str, Judge]"
) -> Iterator[tuple[Record, dict[str, Item | str], dict[str, CombinedVerdict]]]:
    """Yield each record with its items and the judges' combined verdicts, both by kind."""
    judgements: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in read_judgements(folder, scoring):
        judgements.setdefault((judgement.kind, judgement.item), []).append(
            judgement.without_texts()
        )
    combined: dict[tuple[str, str], CombinedVerdict] = {}
    for record, items in plan(folder, judges):
        verdicts = {}
        for name, item in items.items():
            judge = judges[name]
            if isinstance(item, str):
                verdicts[name] = CombinedVerdict({}, dict.fromkeys(judge.role.outputs, item))
                continue
            key = (judge.name, item.id)
            if key not in combined:
                combined[key] = _combined(scoring.panel, judge, item, judgements.get(key, ()))
            verdicts[name] = combined[key]
        yield record, items, verdicts


def _combined(
    panel: Panel, judge: "Judge", item: Item, judgements: Sequence[Judgement]
) -> CombinedVerdict:
    """Return the verdict on an item from its judgements."""
    if not judgements:
        return CombinedVerdict({}, dict.fromkeys(judge.role.outputs, NOT_YET))
    return combine(panel, judge, [judgement.with_dispute(judge, item) for judgement in judgements])


def add_verdict(record: Record, verdict: CombinedVerdict) -> Record:
    """Return a copy of the record with these numbers and reasons, which replace existing ones of
    the same name.
    """
    unscored = {name: why for name, why in record.unscored.items() if name not in verdict.values}
    values = {name: value for name, value in record.values.items() if name not in verdict.unscored}
    return record.model_copy(
        update={"values": values | verdict.values, "unscored": unscored | verdict.unscored}
    )
