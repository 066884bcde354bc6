"""On real data, from the run to the plot: the embedded model is under test, and the judge is a provider's model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.results.analyses.registry import analyse_runs, possible
from emend.evals.show.report.plots import plot_analysis
from emend.memory.errors import BadData
from tests.evals.judged_runs import verdict
from tests.params import mostly_slow
from tests.paths import SHARED
from tests.provider.models import asked_model
from tests.provider.server import Provider

RUNS: dict[str, dict[str, Any]] = {
    "akew": {"settings": ("struct", "unstruct"), "benchmark_options": {"dataset": "counterfact"}, "limit": 2},
    "docter": {"settings": ("doc",), "benchmark_options": {"blocks": "edit_success,reasoning"}, "limit": 4},
    "elken": {"benchmark_options": {"blocks": "fact,tendency_g"}, "limit": 2, "seed": 14},
    "recoe": {"benchmark_options": {"prompting": "cot", "schemes": "counting,aggregation"}, "limit": 2},
}
WANTED: Mapping[str, set[str]] = {
    "akew": {"drop", "errors", "retrieval"},
    "docter": {"frequency", "position", "reasoning", "retrieval"},
    "elken": {"known", "background", "event-type", "tendency"},
    "recoe": {"perplexity", "recall-coherence", "retrieval"},  # no scheme: of its chains the model ends none
}
WITHOUT_VALUE = {"drop"}
"""Analyses all of whose rows may be unscored: where the model answers nothing right, nothing can drop."""
JUDGED = ("elken", "recoe")
"""Benchmarks with answers that await a judge."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(RUNS, "akew"))
def test_real_data_is_run_judged_analysed_and_drawn(name: str, tmp_path: Path) -> None:
    data = SHARED / "data" / name
    if not data.is_dir():
        pytest.skip(f"no data at {data}")
    pytest.importorskip("matplotlib", reason="pip install 'emend-eval[plot]'")
    folder = tmp_path / name
    told = {"benchmark": name, "data": str(data), "editors": ("rag",), "model": "tiny", "embedding": "lexical"}
    run(RunConfig.model_validate(told | RUNS[name]), folder)
    if name in JUDGED:
        with Provider(lambda asked: verdict(asked.prompt)) as provider:
            spec = provider.spec("chat")
            summary = score_run(folder, Panel(judges=(spec,)), models={spec: asked_model(provider, timeout=30.0)})
        assert summary.judged > summary.unscored and not summary.failed
    opened = open_run(folder)
    able = {kind for kind, _, why in possible(opened) if not why}
    assert able >= WANTED[name]
    for kind in sorted(able):
        found = analyse_runs(kind, [opened])
        assert all(row.n or row.unscored for row in found.rows), kind
        plot = tmp_path / f"{kind}.svg"
        if kind in WITHOUT_VALUE and not any(row.n for row in found.rows):
            with pytest.raises(BadData, match="nothing to draw"):
                plot_analysis(found, plot)
            continue
        plot_analysis(found, plot)
        assert any(row.n for row in found.rows), kind
        text = plot.read_text(encoding="utf-8")
        assert found.title in text and "n=" in text, kind
