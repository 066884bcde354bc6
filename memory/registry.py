"""Registries of components by name: built-in ones, entry points of other packages, and
`module:attr`.
"""

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from os.path import lexists
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from emend.memory.errors import BadSettings, EmendError, find_near, place_of
from emend.memory.products import Row, product_rows, read_rows

T = TypeVar("T")


# Names (`module:attribute`) that may be imported; True if the object's interface is checked before
# it is called.
_trusted: dict[str, bool] = {}
# Separators around a name in a setting or in a chain of retrievers.
_SEPARATORS = re.compile(r"""[\s=,>()\[\]{}"']+""")
# Module part of the names of objects passed to the Python API, which exist only in this process.
OBJECT = "object"
_objects: dict[str, Any] = {}


def trust_names(names: Iterable[str], checked: bool = False) -> None:
    """Allow names to be imported in this process; names must come from the user, never from a run
    folder.

    Args:
        names: each as `module:attribute`.
        checked: the names come from a file and were confirmed by the user. The object is then only
            called if it is a class with the methods of its kind of component, a function annotated
            to return one, or a function whose first parameter has an expected name.
    """
    for name in names:
        _trusted[name] = checked and _trusted.get(name, True)


def trust_typed(values: Any) -> None:
    """Trust every name in texts, mappings and sequences that the user typed; paths are skipped."""
    if isinstance(values, str):
        parts = (values, values.partition("=")[2], *_SEPARATORS.split(values))
        named = (name for name in parts if ":" in name)
        # a downloaded folder may have the name of its code
        trust_names(name for name in named if not lexists(name))
    elif isinstance(values, Mapping):
        trust_typed(tuple(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            trust_typed(value)


def trusted_names() -> dict[str, bool]:
    """Return the names that may be imported now; True if the object's interface is checked
    first.
    """
    return dict(_trusted)


def load_attribute(
    name: str, kind: str, *interfaces: tuple[str, ...], parameters: Iterable[str] = ()
) -> Any:
    """Import the object at `module:attribute`.

    Args:
        name: `module:attribute`.
        kind: kind of component, for messages.
        interfaces: alternative sets of attributes; the object or its result must have one of them
            if the name is `checked`.
        parameters: names of a first parameter that exempt a function from the annotation in that
            case.

    Raises:
        BadSettings: the name is not trusted, or the object is not of that kind.
        ImportError, AttributeError, TypeError, ValueError: it cannot be imported; the module may
            raise others.
    """
    require_trusted(name, kind)
    component = _imported(name)
    # A function that searches returns a list, so that no annotation can name its kind; it is called
    # by the names of its parameters anyway.
    is_function = (
        inspect.isfunction(component)
        and next(iter(inspect.signature(component).parameters), "") in parameters
    )
    if _trusted[name] and not is_function and not _has_interface(component, interfaces):
        interface_names = " or ".join(", ".join(parts) for parts in interfaces)
        functions = (
            (f" or with the first parameter {' or '.join(parameters)}") if parameters else ""
        )
        raise BadSettings(
            f"{kind} '{name}' cannot be used: it is neither a class with {interface_names} nor a "
            f"function annotated to return one{functions}. Name such a class, or annotate the "
            "function."
        )
    return component


def require_trusted(name: str, kind: str) -> None:
    """Reject code that is named in a file but not by the user.

    Raises:
        BadSettings: it is not trusted.
    """
    if name not in _trusted:
        raise BadSettings(
            f"{kind} '{name}' is code from a file that you did not name yourself: check it, then "
            f"allow it with its option or with --trust {name}."
        )


def name_object(name: str, component: Any) -> str:
    """Trust an object and return its name for loading: `module:attribute`, or else
    `object:NAME`.
    """
    path = _importable_name(component)
    if not path:
        path, _objects[name] = f"{OBJECT}:{name}", component
    trust_names([path])
    return path


def _importable_name(component: Any) -> str:
    """Return the `module:attribute` that resolves to this object, or "" if there is none."""
    module, attribute = (
        getattr(component, "__module__", None),
        getattr(component, "__qualname__", ""),
    )
    if module not in (None, "__main__") and attribute and "<" not in attribute:
        with suppress(ImportError, AttributeError, ValueError):
            if _imported(f"{module}:{attribute}") is component:
                return f"{module}:{attribute}"
    return ""


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    if module == OBJECT:
        if attribute not in _objects:
            raise ImportError("it was an object in another process: pass it to emend.run again")
        return _objects[attribute]
    component: Any = importlib.import_module(module)
    for part in attribute.split("."):
        component = getattr(component, part)
    return component


def _has_interface(component: Any, interfaces: Iterable[tuple[str, ...]]) -> bool:
    if inspect.isroutine(component):
        try:
            component = get_type_hints(component).get("return")
        except (NameError, TypeError):
            return False
    return component is not None and any(
        all(hasattr(component, part) for part in parts) for parts in interfaces
    )


def summary_of(component: object) -> str:
    """Return an object's `summary` attribute, or the first paragraph of its docstring, as one line;
    "" if it has neither.
    """
    summary = getattr(component, "summary", None)
    text = summary if isinstance(summary, str) and summary else inspect.getdoc(component) or ""
    return " ".join(text.partition("\n\n")[0].split())


def nearest(name: str, known: list[str]) -> str:
    """Return a hint with the nearest known name, with all known names if none is near, or that
    there are none.
    """
    if not known:
        return "there are none."
    close = find_near(name, known)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(sorted(known))}."


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Finds components by name and imports them when they are loaded.

    `builtin` maps a name to (`module:attr`, one-line summary); the summary is stored here so that
    listing imports nothing. The rows of the TOML file `beside` the registry's module, given as its
    `__file__`, and those of Emend's own products for the group are added. `interfaces` and
    `parameters` are as in `load_attribute`.
    """

    kind: str
    group: str
    builtin: dict[str, Row] = field(default_factory=dict)
    interfaces: tuple[tuple[str, ...], ...] = ()
    parameters: tuple[str, ...] = ()
    beside: str = ""

    def __post_init__(self) -> None:
        if self.beside:
            self.builtin.update(read_rows(Path(self.beside).with_suffix(".toml"))[self.group])
        self.builtin.update(product_rows(self.group))

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages; they cannot replace a built-in name."""
        points = entry_points(group=self.group)
        return {point.name: point for point in points if point.name not in self.builtin}

    def names(self) -> list[str]:
        """Return all names that can be loaded."""
        return [*self.builtin, *self.plugins]

    def installed(self, name: str) -> bool:
        """Return whether the name is built in or an entry point of an installed package."""
        return name in self.builtin or name in self.plugins

    def load(self, name: str) -> T:
        """Return the component with that name or at that `module:attr`.

        Raises:
            BadSettings: unknown name, or a plug-in that cannot be imported.
        """
        if name in self.builtin:
            return self._resolve(name, self.builtin[name][0])
        if name in self.plugins:
            return self._resolve(name, self.plugins[name].value)
        if ":" in name:
            return self._resolve(name, name, from_user=True)
        raise BadSettings(f"unknown {self.kind} '{name}': {nearest(name, self.names())}")

    @contextmanager
    def plugin_errors(self, name: str) -> Iterator[None]:
        """Name the plug-in in errors raised while a component is created or used.

        Raises:
            BadSettings: a plug-in raises an error that is not Emend's own; errors of built-in
                components are not changed.
        """
        try:
            yield
        except EmendError:
            raise
        except (Exception, SystemExit) as error:
            if name in self.builtin:
                raise
            raise BadSettings(
                f"{self.kind} '{name}' cannot be created or used ({type(error).__name__}: "
                f"{error}{place_of(error)}): see docs/how-to/extend.md for the interface of "
                f"a{'n' * (self.kind[0] in 'aeiou')} {self.kind}."
            ) from error

    def _resolve(self, name: str, path: str, from_user: bool = False) -> T:
        try:
            load = partial(
                load_attribute, path, self.kind, *self.interfaces, parameters=self.parameters
            )
            component: Any = load() if from_user else _imported(path)
        except EmendError:
            raise
        # a user's module may raise anything, or end the process with a code that means success
        except (Exception, SystemExit) as error:
            is_usual = isinstance(error, ImportError | AttributeError | TypeError | ValueError)
            if name in self.builtin and not is_usual:
                raise
            problem = str(error) if is_usual else f"{type(error).__name__}: {error}"
            source = "" if path == name else f" from '{path}'"
            raise BadSettings(
                f"{self.kind} '{name}' cannot be loaded{source}: {problem}. "
                "Install its package, or correct the module:attribute."
            ) from error
        return component  # type: ignore[no-any-return]

    def rows(self) -> Iterator[dict[str, str]]:
        """Yield name and summary of each component; the summary of a plug-in comes from its
        docstring, or says why it cannot be loaded.
        """
        for name, row in self.builtin.items():
            yield {"name": name, "summary": row[1]}
        for name in self.plugins:
            try:
                summary = summary_of(self.load(name))
            except BadSettings as error:
                summary = f"broken: {error}"
            yield {"name": name, "summary": summary}
