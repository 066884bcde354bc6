"""Names of the marks of a column's best values, and the decimals of displayed values."""

from typing import Literal

from emend.evals.case import Metric

Mark = Literal["best", "highest", ""]
BEST: Mark = "best"
HIGHEST: Mark = "highest"
NONE: Mark = ""


def decimals(metric: Metric) -> int:
    """Return the number of decimals of a displayed mean: one in percent, else three."""
    if metric.scale >= 10:
        return 1
    return 3
