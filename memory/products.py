"""Rows of registries in TOML files, and those of Emend's own products.

A file has a table for each group of entry points, in which a name has its row. A product is a
folder that no core module imports; its `product.toml` has rows for the groups that other packages
use too. Nothing is imported to list rows.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# `module:attribute` and a one-line summary; for a command also its panel in the help.
Row = tuple[str, ...]
# Rows by group and name.
Groups = Mapping[str, Mapping[str, Row]]
# The only place in the core that names products; without one of these folders the rest of Emend
# still works.
OWN = ("evals/construction", "evals/streams", "evals/papers")
ROOT = Path(__file__).parents[1]


def read_rows(file: Path) -> dict[str, dict[str, Row]]:
    """Return the rows of a TOML file, by group and name."""
    groups = tomllib.loads(file.read_text("utf-8"))
    rows: dict[str, dict[str, Row]] = {}
    for group, table in groups.items():
        rows[group] = {name: tuple(row) for name, row in table.items()}
    return rows


@cache
def own_products() -> tuple[Groups, ...]:
    """Return the rows of each installed product."""
    files = [ROOT / folder / "product.toml" for folder in OWN]
    return tuple(read_rows(file) for file in files if file.is_file())


def product_rows(group: str) -> dict[str, Row]:
    """Return the rows of Emend's own products for a group of entry points, by name."""
    rows: dict[str, Row] = {}
    for product in own_products():
        rows.update(product.get(group, {}))
    return rows
