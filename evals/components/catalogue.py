"""Registries of what can be named on the command line, and the settings of the editors."""

from dataclasses import MISSING, fields
from importlib import import_module
from typing import Annotated, Any, Literal, get_args, get_origin

from emend.memory.registry import Registry

KINDS = {
    "editors": ("emend.editors.registry:EDITORS", "Methods that edit a model's knowledge (--editor)."),
    "benchmarks": ("emend.evals.benchmarks.registry:BENCHMARKS", "Data sets with edits and probes (--benchmark)."),
    "retrievers": ("emend.memory.retrieval.registry:RETRIEVERS", "Strategies that search a memory (--retriever)."),
    "judges": ("emend.graphs.registry:JUDGES", "Criteria by which chat models judge answers (--kind)."),
    "models": ("emend.agents.llm:MODELS", "Where models come from (--model)."),
    "graphs": ("emend.graphs.registry:GRAPHS", "Graphs that emend graph draws."),
}
"""Place and summary of each registry; a registry is imported when it is listed."""


def registry_of(kind: str) -> Registry[Any]:
    """The registry of that kind, one of `KINDS`."""
    module, _, name = KINDS[kind][0].partition(":")
    return getattr(import_module(module), name)  # type: ignore[no-any-return]


def list_presets() -> list[dict[str, str]]:
    """A row per shipped table of settings: editor, preset, and on which model its values were verified, if on any."""
    from emend.editors.hyperparameters import VERIFIED, shipped_tables

    return [
        {"editor": editor, "preset": preset, "verified": values[VERIFIED]}
        for editor in registry_of("editors").builtin
        for preset, values in shipped_tables(editor).items()
    ]


def list_settings() -> list[dict[str, Any]]:
    """A row per setting of each built-in editor: editor, setting, type, and default as JSON has it.

    The defaults of weight editors are those for a model family that Emend ships no values for.
    """
    from emend.editors.hyperparameters import shipped_settings, shipped_tables

    rows = []
    for name in registry_of("editors").builtin:
        editor: Any = registry_of("editors").load(name)
        schema = getattr(editor, "schema", None)
        shipped = shipped_settings(name, ()) if shipped_tables(name) else {}
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
