"""SQL table of a construction's items."""

from emend.evals.construction.items.line import ItemLine
from emend.evals.results.aggregate.job_tables import JobTable

TABLES = {
    "items": JobTable(
        ItemLine,
        "a row per item: its text, the fields that its graph was given, the result, and rejections",
    )
}
