"""Emend: an evaluation suite for knowledge editing of language models.

    import emend

    result = emend.run("mquake", editors=["rag", "mello"], model="openai:gpt-4.1-mini", limit=50)
    print(result.table())

The names below are imported when they are first used, so that `import emend` costs nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emend.editors.base import EditorContext
    from emend.evals.api.result import RunResult, load_run
    from emend.evals.api.run import arun, run
    from emend.evals.api.session import Session, ask, edit, open_memory
    from emend.evals.case import Case, Metric
    from emend.evals.construction.api import build
    from emend.memory.edit import Edit, Triplet
    from emend.memory.errors import EmendError
    from emend.memory.probe import Answer, Probe, Step

_PLACES = {
    "Answer": "memory.probe",
    "Case": "evals.case",
    "Edit": "memory.edit",
    "EditorContext": "editors.base",
    "EmendError": "memory.errors",
    "Metric": "evals.case",
    "Probe": "memory.probe",
    "RunResult": "evals.api.result",
    "Session": "evals.api.session",
    "Step": "memory.probe",
    "Triplet": "memory.edit",
    "arun": "evals.api.run",
    "ask": "evals.api.session",
    "build": "evals.construction.api",
    "edit": "evals.api.session",
    "load_run": "evals.api.result",
    "open_memory": "evals.api.session",
    "run": "evals.api.run",
}
__all__ = [
    "Answer",
    "Case",
    "Edit",
    "EditorContext",
    "EmendError",
    "Metric",
    "Probe",
    "RunResult",
    "Session",
    "Step",
    "Triplet",
    "__version__",
    "arun",
    "ask",
    "build",
    "edit",
    "load_run",
    "open_memory",
    "run",
]

_ROOT = Path(__file__).parents[1]
if (_ROOT / "evals" / "api").is_dir():  # a checkout, in which the packages lie beside this folder
    __path__.append(str(_ROOT))

# found by the path above
__version__: str = import_module("emend.memory.distribution").installed_version()


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'emend' has no attribute '{name}'")
    value = getattr(import_module(f"emend.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
