"""Registry rows of Emend's own products, in the same groups as the entry points of plug-ins.

A product is a folder that no core module imports. Its module `product` has a dict `ROWS` that maps
each group to names and their registry rows. That module imports nothing, since every listing reads
it.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec

# `module:attribute` and a one-line summary; for a command also its panel in the help.
Row = tuple[str, ...]
# The only place in the core that names products; without one of these folders the rest of Emend
# still works.
OWN = (
    "emend.evals.construction.product",
    "emend.evals.streams.product",
    "emend.evals.papers.product",
)


@cache
def own_products() -> tuple[Mapping[str, Mapping[str, Row]], ...]:
    """Return the rows of each installed product, by group and name."""
    present = (name for name in OWN if _is_here(name))
    return tuple(import_module(name).ROWS for name in present)


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the product's package
        return False


def product_rows(group: str) -> dict[str, Row]:
    """Return the rows of Emend's own products for a group of entry points, by name."""
    rows: dict[str, Row] = {}
    for product in own_products():
        rows.update(product.get(group, {}))
    return rows
