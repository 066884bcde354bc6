"""What a plot shows: the direction and length of its bars, its labels and its counts."""

import math
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emend.evals.judging.calibration.agreement import Calibration
from emend.evals.measure.retrieval import RetrievalReport, RetrievalRow
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.analyses.base import Analysis, AnalysisRow, PlotStyle
from emend.evals.show.report import plots
from emend.evals.show.report.judges import _dots

matplotlib = pytest.importorskip("matplotlib.figure", reason="the extra 'plot' is not installed")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are drawn."""
    drawn: list[Any] = []
    undisturbed = plots.drawing

    @contextmanager
    def drawing(*arguments: Any) -> Any:
        with undisturbed(*arguments) as figure:
            drawn.append(figure)
            yield figure

    monkeypatch.setattr(plots, "drawing", drawing)
    return drawn


def analysis(form: str) -> Analysis:
    means = {"death": 25.0, "merger": 75.0}
    rows = [AnalysisRow(panel="acc", label=label, series="rag", mean=mean, n=4) for label, mean in means.items()]
    picture = PlotStyle(x="right, %", y="type", limits=(0, 105), form=form)
    return Analysis(kind="k", title="By type", unit="%", rows=tuple(rows), picture=picture)


def labels(ticks: Any) -> list[str]:
    return [tick.get_text() for tick in ticks]


def test_dots_of_a_calibration_are_pairs_of_labels_about_the_diagonal() -> None:
    share = Estimate(mean=0.8, n=6)
    found = Calibration(
        n=6, unscored=0, cases=6, labels=(0.0, 0.5, 1.0), confusion=((2, 0, 0), (0, 0, 1), (0, 0, 3)), raw=share,
        base_rate=share, kind="recall", judge="openai:judge", scale="share", prompt_id="p", labelled=6, missing=0,
        reasons={}, repeats=1, items="i", measured="m",
    )  # fmt: skip
    panel = matplotlib.Figure().subplots()
    _dots(panel, found)
    assert panel.lines[0].get_xydata().tolist() == [[0, 0], [1, 1]]
    (dots,) = panel.collections
    assert dots.get_offsets().tolist() == [[0, 0], [1, 0.5], [1, 1]] and dots.get_sizes().tolist() == [36, 18, 54]


def test_bars_stand_upright_over_their_labels(figures: list[Any], tmp_path: Path) -> None:
    plots.plot_analysis(analysis("bars"), tmp_path / "a.svg")
    (panel,) = figures[0].axes
    assert labels(panel.get_xticklabels()) == ["death", "merger"]
    assert [bar.get_height() for bar in panel.patches] == [25.0, 75.0]
    assert panel.get_ylim() == (0, 105) and panel.get_title() == "acc (n=4)"


def test_bars_across_lie_beside_their_labels_from_the_top_down(figures: list[Any], tmp_path: Path) -> None:
    plots.plot_analysis(analysis("across"), tmp_path / "a.svg")
    (panel,) = figures[0].axes
    assert labels(panel.get_yticklabels()) == ["death", "merger"]
    assert [bar.get_width() for bar in panel.patches] == [25.0, 75.0]
    assert panel.get_xlim() == (0, 105) and panel.yaxis_inverted()


def test_a_retrieval_plot_has_a_bar_per_strategy_and_counts_its_questions(figures: list[Any], tmp_path: Path) -> None:
    told = [("dense", "efficacy", 10, 0.5), ("bm25", "efficacy", 20, 0.25), ("dense", "locality", 4, 1.0)]
    rows = tuple(
        RetrievalRow(strategy=strategy, kind=kind, n=n, hit_at_1=hit, hit_at_5=1.0, mrr=hit, ms=1.0)
        for strategy, kind, n, hit in told
    )
    report = RetrievalReport(benchmark="b", setting="s", embedding="e", edits=1, entries=1, skipped=0, rows=rows)
    plots.plot_retrieval([report], tmp_path / "r.svg")
    (panel,) = figures[0].axes
    assert labels(panel.get_xticklabels()) == ["efficacy\nn=10 to 20", "locality\nn=4"]
    assert [bar.get_height() for bar in panel.patches] == [50.0, 100.0, 25.0]


def test_an_interval_reaches_to_both_ends_and_a_missing_one_draws_nothing():
    assert plots.reach(5.0, 3.0, 9.0) == (2.0, 4.0)
    assert all(math.isnan(end) for end in (*plots.reach(5.0, None, 9.0), *plots.reach(5.0, 3.0, None)))
