"""Figures of published tables that are derived from the records of a run."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.triples import OPTION, Triples, triples_files
from emend.evals.judging.judged_run import Run, open_run
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.published.akew import (
    AMBIGUOUS,
    EDITED,
    ERROR_FIELDS,
    INCOMPLETE,
    IRRELEVANT,
    OLD,
    akew_error,
)
from emend.evals.papers.analyses.docter import triples
from emend.evals.papers.analyses.recoe import FACTS
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.analyses.base import (
    AnalysisRequest,
    AnalysisRow,
    Bins,
    Lacking,
    records_of,
)

# Rows of AKEW's Table 4, each with the error types that it sums.
ERROR_SUMS = {
    "triplet error": (INCOMPLETE, AMBIGUOUS),
    "editing error": (OLD, IRRELEVANT),
    **{name: (name,) for name in (INCOMPLETE, AMBIGUOUS, OLD, IRRELEVANT)},
}
# Columns of ReCoE's Table 6: an output of the records, or the paper's delta of two outputs.
PERPLEXITIES = {
    "PPL F before": ("ppl_fact_before",),
    "PPL CF before": ("ppl_counter_before",),
    "PPL gap before": ("ppl_fact_before", "ppl_counter_before"),
    "PPL F after": ("ppl_fact",),
    "PPL CF after": ("ppl_counter",),
    "PPL gap after": ("ppl_fact", "ppl_counter"),
}
# Blocks of DocTER's data with English documents.
ENGLISH_BLOCKS = {"edit_success", "locality", "reasoning"}


def derived_rows(folder: Path, kinds: Sequence[str]) -> list[MetricRow]:
    """Return the rows of these kinds of figures, keys of `DERIVED`; kinds without data are skipped.

    Raises:
        MissingData: the run's file of triplets or its data no longer exist.
        BadData: a line is damaged.
    """
    rows: list[MetricRow] = []
    for kind in kinds:
        try:
            rows += DERIVED[kind](open_run(folder, "none"), Manifest.read(folder).config)
        except Lacking:
            continue
    return rows


def _errors(run: Run, config: RunConfig) -> Iterator[MetricRow]:
    """Yield the shares of error types among the failed edits of each setting."""
    bins = Bins([run], "no edit failed")
    for _, record in records_of([run], EDITED, ERROR_FIELDS):
        if record.values.get("em") == 0.0:
            sort = akew_error(record, run.case(record).edits)
            for name, parts in ERROR_SUMS.items():
                bins.add(run, record.setting, name, record, float(sort in parts))
    return (_metric_row(row, row.series, row.panel, _mode(run)) for row in bins.rows())


def _perplexities(run: Run, config: RunConfig) -> Iterator[MetricRow]:
    """Yield mean perplexities of facts and counterfactuals, and their difference.

    Rows are per scheme, then means over the schemes.
    """
    bins = Bins([run], "no perplexities")
    for _, record in records_of([run]):
        if record.kind.endswith(FACTS):
            for name, outputs in PERPLEXITIES.items():
                values = [record.values[output] for output in outputs if output in record.values]
                value = None
                if len(values) == len(outputs):
                    value = values[0] - sum(values[1:])
                label = f"{name} {record.kind.removesuffix(FACTS)}"
                bins.add(run, record.setting, label, record, value)
    rows = [_metric_row(row, row.series, row.panel, _mode(run)) for row in bins.rows(scale=1.0)]
    yield from rows
    groups: dict[tuple[str, str, str], list[MetricRow]] = {}
    for row in rows:
        groups.setdefault((row.editor, row.setting, row.metric.rpartition(" ")[0]), []).append(row)
    for (_, _, name), parts in groups.items():
        means = [part.mean for part in parts if part.mean is not None]
        over: dict[str, Any] = {"metric": f"{name} mean", "mean": None, "low": None, "high": None}
        over["n"] = sum(part.n for part in parts)
        over["unscored"] = sum(part.unscored for part in parts)
        if means:
            over["mean"] = fmean(means)
        yield parts[0].model_copy(update=over)


def _extraction(run: Run, config: RunConfig) -> Iterator[MetricRow]:
    """Yield the quality of the run's triplets, measured with the run's embedding.

    The field `editor` holds the extraction with the steps that it left out, and `mode` the
    documents.
    """
    if OPTION not in run.options:
        raise Lacking("the run has no file of triplets")
    blocks = set(str(run.options.get("blocks", "edit_success")).split(","))
    documents = "several"
    if blocks <= ENGLISH_BLOCKS:
        documents = "en"
    elif len(blocks) == 1:
        documents = blocks.pop()
    for file in triples_files(run.options[OPTION]):
        setting = "tool"
        if file.used == {"llm"}:
            setting = "llm"
        request = AnalysisRequest((str(file.path),), embedding=config.embedding)
        for row in triples([run], request).rows:
            yield _metric_row(row, _extraction_name(file), setting, documents)


def _extraction_name(file: Triples) -> str:
    """Return the name of an extraction with the steps that it left out."""
    settings = next(iter(file.documents.values())).settings
    without = {
        "validation": settings.get("validation") == "off",
        "deduplication": settings.get("deduplication") is False,
    }
    steps = " and ".join(step for step, left_out in without.items() if left_out)
    if steps:
        return f"extract without {steps}"
    return "extract"


def _mode(run: Run) -> str:
    return next((record.mode for record in run.fields(("mode",))), "")


def _metric_row(row: AnalysisRow, editor: str, setting: str, mode: str) -> MetricRow:
    values = row.model_dump(include=set(Estimate.model_fields))
    return MetricRow(editor=editor, setting=setting, mode=mode, metric=row.label, **values)


# Kinds of figures that a rule of `counterparts.toml` may name; shares are in percent.
DERIVED: dict[str, Callable[[Run, RunConfig], Iterator[MetricRow]]] = {
    "errors": _errors,
    "perplexities": _perplexities,
    "triples": _extraction,
}
