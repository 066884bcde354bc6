"""Registries of what can be named on the command line, and the settings of the editors."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, get_args, get_origin

from emend.memory.registry import Registry


def _editors() -> Registry[Any]:
    from emend.editors.registry import EDITORS

    return EDITORS


def _benchmarks() -> Registry[Any]:
    from emend.evals.benchmarks.registry import BENCHMARKS

    return BENCHMARKS


def _retrievers() -> Registry[Any]:
    from emend.memory.retrieval.registry import RETRIEVERS

    return RETRIEVERS


def _judges() -> Registry[Any]:
    from emend.graphs.registry import JUDGES

    return JUDGES


def _models() -> Registry[Any]:
    from emend.agents.llm import MODELS

    return MODELS


def _graphs() -> Registry[Any]:
    from emend.graphs.registry import GRAPHS

    return GRAPHS


KINDS: dict[str, tuple[Callable[[], Registry[Any]], str]] = {
    "editors": (_editors, "Methods that edit a model's knowledge (--editor)."),
    "benchmarks": (_benchmarks, "Data sets with edits and probes (--benchmark)."),
    "retrievers": (_retrievers, "Strategies that search a memory (--retriever)."),
    "judges": (_judges, "Criteria by which chat models judge answers (--kind)."),
    "models": (_models, "Where models come from (--model)."),
    "graphs": (_graphs, "Graphs that emend graph draws."),
}


def list_settings() -> list[dict[str, Any]]:
    """A row per setting of each built-in editor: editor, setting, type, and default as JSON has it.

    The defaults of weight editors are those for a model family that Emend ships no values for.
    """
    from emend.editors.hyperparameters import SHIPPED, shipped_settings

    rows = []
    for name in _editors().builtin:
        editor: Any = _editors().load(name)
        schema = getattr(editor, "schema", None)
        shipped = shipped_settings(name, ()) if (SHIPPED / f"{name}.toml").exists() else {}
        for field in fields(schema) if schema else ():
            default = shipped.get(field.name, field.default)
            row = {"editor": name, "setting": field.name, "type": _type_name(field.type)}
            rows.append(row | {"default": None if default is MISSING else default})
    return rows


def _type_name(kind: Any) -> str:
    """A type as users write its values: `int`, `float | None`, `scope | model`."""
    if get_origin(kind) is Annotated:
        return _type_name(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"list of {_type_name(get_args(kind)[0])}"
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
