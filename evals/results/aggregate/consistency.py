"""CounterFact's RS of a finished run, which needs reference texts that no run holds."""

from pathlib import Path

from emend.evals.log.table.record_fields import read_fields
from emend.evals.metrics.consistency import FIELDS, GENERATION, References, consistency
from emend.evals.results.aggregate.columns import MetricRow
from emend.memory.errors import BadData

PERCENT = 100.0  # as the paper prints it


def consistency_rows(run: Path, references: Path) -> list[MetricRow]:
    """RS by editor, over all settings and modes of the run, in percent.

    Raises:
        MissingData: a file of the references is absent.
        BadData: the run has no generated texts, or a file is not what it should be.
    """
    records = read_fields(run, FIELDS, kind=[GENERATION])
    estimates = consistency(records, References.read(references))
    if not estimates:
        raise BadData(
            f"'{run}' has no generated texts: run it with --benchmark counterfact --benchmark-option generation=100."
        )
    return [
        MetricRow(editor=editor, setting="all", mode="all", metric="RS", **value.scaled(PERCENT).model_dump())
        for editor, value in estimates.items()
    ]
