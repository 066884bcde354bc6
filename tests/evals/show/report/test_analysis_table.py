"""The table of an analysis shows as many digits as its values need."""

import pytest
from rich.console import Console

from emend.evals.results.analyses.base import Analysis, AnalysisRow, PlotStyle
from emend.evals.show.report.analysis import render_analysis


@pytest.mark.parametrize(("mean", "text"), [(3.14159, "3.14"), (31.4159, "31.4")])
def test_small_values_have_two_decimals_and_larger_ones_one(mean, text):
    rows = (AnalysisRow(panel="p", label="l", series="rag", mean=mean, n=3),)
    analysis = Analysis(kind="k", title="t", unit="", rows=rows, picture=PlotStyle())
    console = Console(width=100)
    with console.capture() as captured:
        console.print(render_analysis(analysis))
    words = captured.get().split()
    assert text in words
