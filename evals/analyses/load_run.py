"""From run folders to what analyses read."""

from collections.abc import Iterator
from pathlib import Path

from emend.evals.analyses.base import CaseInfo, Run
from emend.evals.case import Record
from emend.evals.judges.store import Scoring, find_scoring, judged_records
from emend.evals.log.lines import CASES
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines


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
