"""Names for objects that a caller gives in place of names, so that a run's files can say what it was run with."""

from collections.abc import Iterable
from typing import Any

from emend.evals.config.run_config import MODEL
from emend.memory.registry import name_object

MADE = {"benchmark": ("cases", "metrics"), "editors": ("edit", "fingerprint"), "embedding": ("documents", "queries")}
"""What an instance of each kind has; the registries want factories, which only classes and functions are."""


def component_name(kind: str, component: Any) -> str:
    """Name under which this process loads a component: a name stays as it is, an object gets one.

    Args:
        kind: option that takes the component: benchmark, editors, embedding, model or retriever.
        component: a name, a class, a factory, or an instance.
    """
    if isinstance(component, str):
        return component
    if isinstance(component, type) or hasattr(component, "__name__"):
        return name_object(component.__name__, component)
    label = type(component).__name__
    if kind in MADE and all(hasattr(component, part) for part in MADE[kind]):
        return name_object(label, lambda *arguments, **settings: component)
    return name_object(label, component)


def editor_names(editors: Any) -> tuple[str, ...]:
    """Names of one editor or of several."""
    several = editors if isinstance(editors, Iterable) and not isinstance(editors, str) else [editors]
    return tuple(component_name("editors", editor) for editor in several)


def name_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a run with a name in place of each object, and a text in place of each path."""
    named = {option: value for option, value in options.items() if value is not None}
    for option in ("benchmark", "embedding", MODEL, "retriever"):
        if option in named:
            named[option] = component_name(option, named[option])
    for option in ("cache", "data", "perplexity_text", "prices"):
        if option in named:
            named[option] = str(named[option])
    if "editors" in named:
        named["editors"] = editor_names(named["editors"])
    for name in ("settings", "protocols", "ability"):
        if isinstance(named.get(name), str):
            named[name] = (named[name],)
    return named
