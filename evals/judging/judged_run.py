"""Run with the judgements of a scoring, for analyses and annotations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emend.evals.case import Metric, Record
from emend.evals.judging.scorings.manifest import Scoring
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.judging.scorings.verdicts import judged_records
from emend.evals.log.lines import CASES
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.log.records import (
    read_lines,
)

Tags = Mapping[str, Any]


@dataclass(frozen=True)
class CaseInfo:
    """Data of a case that a run stores beside its records: number in its setting, tags, edits."""

    number: int
    tags: Tags = field(default_factory=dict)
    edits: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Run:
    """Run with its records for analyses.

    `model` is the model's fingerprint in the manifest; `cases` maps setting and id to case data;
    `scoring` is the scoring whose judgements the records have. Records of probes that were asked
    again at a checkpoint are left out.
    """

    folder: Path
    name: str
    benchmark: str
    model_name: str
    settings: tuple[str, ...]
    editors: tuple[str, ...]
    metrics: tuple[Metric, ...]
    data: str | None
    options: Mapping[str, str]
    model: Mapping[str, Any]
    provenance: Mapping[str, Any]
    cases: Mapping[tuple[str, str], CaseInfo]
    scoring: Scoring | None = None

    @property
    def judged(self) -> str:
        """Names of the scoring's judges, and whether they are calibrated; empty without a
        scoring.
        """
        if self.scoring is None:
            return ""
        scoring = self.scoring
        parts = (
            f"{kind} {'' if scoring.calibrated(kind) else 'not '}calibrated"
            for kind in scoring.kinds
        )
        return f"{scoring.judge} ({', '.join(parts)})"

    def records(self) -> Iterator[Record]:
        """Yield the records; each call reads them anew."""
        return (
            record for record in judged_records(self.folder, self.scoring) if not record.checkpoint
        )

    def fields(self, names: Sequence[str], kinds: Collection[str] = ()) -> Iterator[Record]:
        """Yield the records of these kinds of probe, by default all, as objects with these fields
        (see `read_fields`).
        """
        if self.scoring is None:
            return read_fields(self.folder, names, kind=kinds)
        return (record for record in self.records() if not kinds or record.kind in kinds)

    def case(self, record: Record) -> CaseInfo:
        """Return the stored data of a record's case."""
        return self.cases.get((record.setting, record.case), CaseInfo(0))


def open_run(folder: Path, scoring: str | None = None) -> Run:
    """Open the run in a folder; its records are streamed.

    Args:
        folder: a run folder, finished or not.
        scoring: id of the scoring whose judgements the records get; None uses the newest, `none`
            uses no scoring.

    Raises:
        BadData: the folder has no run, or a line is damaged.
        BadSettings: the scoring does not exist.
    """
    manifest = Manifest.read(folder)
    return Run(
        folder=folder,
        name=folder.resolve().name,
        benchmark=manifest.config.benchmark,
        model_name=manifest.config.model,
        settings=tuple(manifest.cases),
        editors=manifest.config.editors,
        metrics=manifest.metrics,
        data=manifest.config.data,
        options=manifest.config.benchmark_options,
        model=manifest.model,
        provenance=manifest.benchmark,
        cases={
            (str(line["setting"]), str(line["case"])): CaseInfo(
                int(line["number"]), line.get("tags", {}), tuple(line["edits"])
            )
            for line in read_lines(folder, CASES)
        },
        scoring=find_scoring(folder, scoring),
    )
