"""Registries whose components can be named on the command line."""

from typing import Any

from emend.memory.registry import Registry

# Registries whose components can be named on the command line; imported when they are listed.
LISTS: Registry[Registry[Any]] = Registry(
    kind="list",
    group="emend.lists",
    beside=__file__,
)
# Registries whose components have graphs.
DRAWN = ("judges", "graphs", "editors", "constructions")


def registry_of(kind: str) -> Registry[Any]:
    """Return the registry of that kind from `LISTS`."""
    return LISTS.load(kind)
