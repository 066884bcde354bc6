"""Places of marks, curves and graphs in the viewer's drawings."""

import doctest

import pytest

from emend.evals.show.view import charts
from emend.evals.show.view.charts import panels, symmetric, whisker
from emend.evals.show.view.graph_layout import NODE_HEIGHT, NODE_WIDTH, draw_graph
from emend.evals.show.view.views import CellView, ViewData


def test_examples():
    assert doctest.testmod(charts).failed == 0


def test_a_whisker_lies_on_its_axis():
    assert whisker(None, None, None, (0, 100)) is None
    mark = whisker(50, 0, 100, (0, 100), 132)
    assert mark == (66.0, 5.0, 127.0)
    assert whisker(500, -3, 900, (0, 100), 132) == (127.0, 5.0, 127.0)  # nothing is drawn outside
    assert whisker(1, None, None, (1, 1), 132) == (66.0, None, None)


def test_an_axis_of_differences_has_zero_in_its_middle():
    assert symmetric([None, -3.0, 2.0]) == (-3.0, 3.0)
    assert symmetric([None]) == (-1.0, 1.0)


def curve(editor, metric, means):
    points = tuple(
        ViewData(standing=edits, cell=CellView(text=str(mean), mean=mean), first=CellView(text="100", mean=100.0))
        for edits, mean in means
    )
    return ViewData(setting="s", mode="m", editor=editor, metric=metric, unit="%", points=points, axis=(0, 100))


def test_curves_of_a_metric_share_a_panel_and_higher_values_are_higher():
    both = [curve("a", "EM", [(10, 100.0), (20, 50.0)]), curve("b", "EM", [(10, 0.0), (20, None)])]
    (panel, other) = panels([*both, curve("a", "ES", [(10, 1.0)])])
    assert (panel.title, other.title, [series.editor for series in panel.series]) == ("EM", "ES", ["a", "b"])
    first, second = panel.series[0].marks
    assert first.y < second.y < panel.series[1].marks[0].y and first.x < second.x
    assert len(panel.series[1].marks) == 1  # without a value there is no mark
    assert [text for _, text in panel.across] == ["10", "20"]


@pytest.mark.parametrize(
    ("source", "target"), [("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "d"), ("d", "b"), ("a", "a")]
)
def test_edges_end_at_the_side_of_their_target(source, target):
    nodes = tuple(
        ViewData(id=name, label=name, layer=layer, column=column)
        for name, layer, column in (("a", 0, 0), ("b", 1, 0), ("d", 1, 1), ("c", 3, 0))
    )
    edge = ViewData(source=source, target=target, label="1", walked=True, chosen=False)
    drawn = draw_graph(ViewData(name="g", nodes=nodes, edges=(edge,), layers=4, columns=2))
    left, top = drawn.corners[target]
    x, y = map(float, drawn.edges[0].path.split("C")[1].split()[-2:])
    outside = max(left - x, x - left - NODE_WIDTH, top - y, y - top - NODE_HEIGHT)
    assert outside == pytest.approx(6, abs=0.1)  # as long as the arrowhead
    assert drawn.edges[0].edge.label == "1" and "taken: " + source in drawn.words
