"""A run with the judgements of a scoring, as analyses and annotations read it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emend.evals.case import Metric, Record
from emend.evals.judging.store import Scoring, find_scoring, judged_records
from emend.evals.log.lines import CASES
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines

Tags = Mapping[str, Any]


@dataclass(frozen=True)
class CaseInfo:
    """A case as a run stores it beside its records: its number in its setting, its tags, its edits."""

    number: int
    tags: Tags = field(default_factory=dict)
    edits: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Run:
    """A run as analyses see it.

    `records` may be called again and streams anew; records that were asked again at a checkpoint are left out. `model`
    is the fingerprint of the manifest, `cases` is by setting and id.
    """

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
    records: Callable[[], Iterable[Record]]
    judged: str = ""
    """The scoring whose judgements the records carry; empty without one."""

    def case(self, record: Record) -> CaseInfo:
        """Stored data of a record's case."""
        return self.cases.get((record.setting, record.case), CaseInfo(0))


def open_run(folder: Path, scoring: str | None = None) -> Run:
    """The run in a folder; its records are streamed, never held together.

    Args:
        folder: a run folder, finished or not.
        scoring: whose judgements the records are to carry; None takes the newest scoring where there is one, `none`
            none.

    Raises:
        BadData: no run there, or a damaged line.
        BadSettings: no such scoring.
    """
    manifest = Manifest.read(folder)
    chosen = find_scoring(folder, scoring)

    def records() -> Iterator[Record]:
        return (record for record in judged_records(folder, chosen) if not record.checkpoint)

    return Run(
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
        records=records,
        judged=_judged(chosen) if chosen else "",
    )


def _judged(scoring: Scoring) -> str:
    """Judges of a scoring, and whether they are calibrated."""
    parts = [f"{kind} {'calibrated' if scoring.calibrated(kind) else 'not calibrated'}" for kind in scoring.kinds]
    return f"{scoring.judge} ({', '.join(parts)})"
