"""The stable names for packages that extend Emend; modules that they come from may move.

    from emend.extend import Output, Scorer

The names are those that the stub file beside this module imports. Each is imported when it is first
used. The conformance suites (`...Contract`) need pytest.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any


def _read_stub() -> dict[str, str]:
    """Return the module of each name."""
    modules: dict[str, str] = {}
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= dict.fromkeys((alias.name for alias in node.names), node.module)
    return modules


_MODULES = _read_stub()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'emend.extend' has no attribute '{name}'")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
