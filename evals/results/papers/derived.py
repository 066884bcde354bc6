"""Published figures that no metric of a benchmark has, computed from a run's records or its extracted triplets."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.triples import OPTION, Triples, triples_files
from emend.evals.judging.judged_run import Run, open_run
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.papers.akew import AMBIGUOUS, EDITED, ERROR_FIELDS, INCOMPLETE, IRRELEVANT, OLD, error_of
from emend.evals.results.aggregate.rows import MetricRow
from emend.evals.results.analyses.base import AnalysisRequest, AnalysisRow, Bins, Lacking, records_of
from emend.evals.results.analyses.extraction import triples
from emend.evals.results.analyses.recoe import FACTS

ERROR_SUMS = {
    "triplet error": (INCOMPLETE, AMBIGUOUS),
    "editing error": (OLD, IRRELEVANT),
    **{name: (name,) for name in (INCOMPLETE, AMBIGUOUS, OLD, IRRELEVANT)},
}
"""Rows of AKEW's Table 4, with the types of error that they sum."""
PERPLEXITIES = {
    "PPL F before": ("ppl_fact_before",),
    "PPL CF before": ("ppl_counter_before",),
    "PPL gap before": ("ppl_fact_before", "ppl_counter_before"),
    "PPL F after": ("ppl_fact",),
    "PPL CF after": ("ppl_counter",),
    "PPL gap after": ("ppl_fact", "ppl_counter"),
}
"""Columns of ReCoE's Table 6: an output of the records, or the first less the second, the paper's delta."""
ENGLISH_BLOCKS = {"edit_success", "locality", "reasoning"}


def derived_rows(folder: Path, kinds: Sequence[str]) -> list[MetricRow]:
    """Rows of these kinds of figures, keys of `DERIVED`; none of what the run has nothing for.

    Raises:
        MissingData: the run's file of triplets, or its data, is not there any more.
        BadData: a damaged line.
    """
    rows: list[MetricRow] = []
    for kind in kinds:
        try:
            rows += DERIVED[kind](open_run(folder, "none"), Manifest.read(folder).config)
        except Lacking:
            continue
    return rows


def _errors(run: Run, config: RunConfig) -> Iterator[MetricRow]:
    """Shares of the types of error among the failed edits of each setting."""
    bins = Bins([run], "no edit failed")
    for _, record in records_of([run], EDITED, ERROR_FIELDS):
        if record.values.get("em") == 0.0:
            sort = error_of(record, run.case(record).edits)
            for name, parts in ERROR_SUMS.items():
                bins.add(run, record.setting, name, record, float(sort in parts))
    return (_metric_row(row, row.series, row.panel, _mode(run)) for row in bins.rows())


def _perplexities(run: Run, config: RunConfig) -> Iterator[MetricRow]:
    """Mean perplexities of facts and counterfactuals, and their difference, by scheme and over the schemes."""
    bins = Bins([run], "no perplexities")
    for _, record in records_of([run]):
        if record.kind.endswith(FACTS):
            for name, outputs in PERPLEXITIES.items():
                values = [record.values[output] for output in outputs if output in record.values]
                value = values[0] - sum(values[1:]) if len(values) == len(outputs) else None
                bins.add(run, record.setting, f"{name} {record.kind.removesuffix(FACTS)}", record, value)
    rows = [_metric_row(row, row.series, row.panel, _mode(run)) for row in bins.rows(scale=1.0)]
    yield from rows
    groups: dict[tuple[str, str, str], list[MetricRow]] = {}
    for row in rows:
        groups.setdefault((row.editor, row.setting, row.metric.rpartition(" ")[0]), []).append(row)
    for (_, _, name), parts in groups.items():
        means = [part.mean for part in parts if part.mean is not None]
        counts = {"n": sum(part.n for part in parts), "unscored": sum(part.unscored for part in parts)}
        over = {"metric": f"{name} mean", "mean": fmean(means) if means else None, "low": None, "high": None}
        yield parts[0].model_copy(update=counts | over)


def _extraction(run: Run, config: RunConfig) -> Iterator[MetricRow]:
    """Quality of the run's triplets by the run's embedding.

    The editor's place has what the extraction left out, that of the mode the documents.
    """
    if OPTION not in run.options:
        raise Lacking("the run has no file of triplets")
    blocks = set(str(run.options.get("blocks", "edit_success")).split(","))
    documents = "en" if blocks <= ENGLISH_BLOCKS else blocks.pop() if len(blocks) == 1 else "several"
    for file in triples_files(run.options[OPTION]):
        setting = "llm" if file.used == {"llm"} else "tool"
        for row in triples([run], AnalysisRequest((str(file.path),), embedding=config.embedding)).rows:
            yield _metric_row(row, _extraction_name(file), setting, documents)


def _extraction_name(file: Triples) -> str:
    """Name of an extraction, with the steps that it left out."""
    settings = next(iter(file.documents.values())).settings
    without = {
        "validation": settings.get("validation") == "off",
        "deduplication": settings.get("deduplication") is False,
    }
    steps = " and ".join(step for step, left_out in without.items() if left_out)
    return f"extract without {steps}" if steps else "extract"


def _mode(run: Run) -> str:
    return next((record.mode for record in run.fields(("mode",))), "")


def _metric_row(row: AnalysisRow, editor: str, setting: str, mode: str) -> MetricRow:
    values = row.model_dump(include={"mean", "n", "unscored", "low", "high"})
    return MetricRow(editor=editor, setting=setting, mode=mode, metric=row.label, **values)


DERIVED: dict[str, Callable[[Run, RunConfig], Iterator[MetricRow]]] = {
    "errors": _errors,
    "perplexities": _perplexities,
    "triples": _extraction,
}
"""Kinds of figures that a rule of `counterparts.toml` may name; shares are in percent."""
