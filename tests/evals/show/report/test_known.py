"""The share of facts that the unedited model knew, a line below the table."""

import re
from pathlib import Path
from typing import Any

import pytest

from emend.evals.case import Metric
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.evaluate.run import run
from emend.evals.metrics.protocols import metrics_under
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import report
from emend.evals.show.report.metric_notes import notes
from emend.evals.show.report.secondary import known_lines, known_metrics

DEFINITIONS: dict[str, Any] = {
    name: definition
    for name in BENCHMARKS.names()
    if (definition := getattr(BENCHMARKS.load(name), "definition", None))
}
TINYWORLD = {"benchmark": "tinyworld", "settings": ("document",), "model": "tiny", "limit": 3, "embedding": "lexical"}


def known(folder: Path, **fields: object) -> list[str]:
    run(RunConfig.model_validate(TINYWORLD | fields), folder)
    return [note for note in notes(report(folder), plain=True) if note.startswith("known by the unedited")]


@pytest.mark.slow
def test_a_run_with_the_unedited_model_says_what_it_knew_with_n_and_interval(tmp_path: Path):
    (line,) = known(tmp_path / "run", editors=("unedited", "in_context"))
    share = r"efficacy(?: contains)? \d+\.\d \[\d+(?:\.\d)?, \d+(?:\.\d)?\] of 3, (?:exact|contains)"
    assert re.fullmatch(rf"known by the unedited model, document: {share}", line)


@pytest.mark.slow
def test_a_run_without_the_unedited_model_says_nothing_of_it(tmp_path: Path):
    assert known(tmp_path / "run", editors=("in_context",)) == []


CONVERSATIONS = {"locomo", "beam", "longmemeval", "memory_agent_bench"}
"""Benchmarks without edits."""


@pytest.mark.parametrize("name", sorted({*DEFINITIONS} - CONVERSATIONS))
def test_every_benchmark_has_a_metric_of_what_the_model_knew(name: str):
    chosen = known_metrics(metrics_under(DEFINITIONS[name].metrics, ()))
    assert chosen and len({(metric.per, metric.scale) for metric in chosen}) == 1


def test_what_could_not_be_scored_is_no_share():
    metric = Metric(name="em", value="em", kinds=("efficacy",))
    row = MetricRow(
        editor="unedited", setting="s", mode="all", metric="em", mean=None, n=0, unscored=3, low=None, high=None
    )
    assert list(known_lines([row], [metric])) == []
