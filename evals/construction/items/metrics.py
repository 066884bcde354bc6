"""Metrics of a construction: the share of items that are kept, and the yield of each filter."""

from collections.abc import Iterator

from emend.evals.case import Metric
from emend.evals.construction.items.line import ITEM, KEPT, PASSES
from emend.graphs.construction.pipeline import Pipeline, Recipe


def item_metrics(pipeline: Pipeline, recipe: Recipe) -> tuple[Metric, ...]:
    """Return metrics for the share of kept items and, per filter, the pass rate of the items that
    reached it.
    """
    share = Metric(
        name=KEPT, value=KEPT, kinds=(ITEM,), scale=100.0, summary="items that passed all filters"
    )
    return (share, *_filter_metrics(share, pipeline, recipe))


def _filter_metrics(share: Metric, pipeline: Pipeline, recipe: Recipe) -> Iterator[Metric]:
    for name, info in pipeline.filters(recipe).items():
        changed = {
            "name": name,
            "value": f"{PASSES}{name}",
            "group": "filters",
            "summary": info.rejects,
        }
        yield share.model_copy(update=changed)
