"""A registry per kind of component: built-in names, entry points of other packages, and `module:attr`."""

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from os.path import lexists
from typing import Any, Generic, TypeVar, get_type_hints

from emend.memory.errors import BadSettings, EmendError

T = TypeVar("T")


_trusted: dict[str, bool] = {}
"""Names as `module:attribute` that may be imported; True where only an object of its kind is called."""
_SEPARATORS = re.compile(r"""[\s=,>()\[\]{}"']+""")
"""What may stand beside a name in a setting or in a chain of retrievers."""
OBJECT = "object"
"""The module in names of objects that a caller of the Python API gave, which exist in this process alone."""
_objects: dict[str, Any] = {}


def trust_names(names: Iterable[str], checked: bool = False) -> None:
    """Let names be imported in this process: a name is brought by what the user typed, never by a run folder.

    Args:
        names: each as `module:attribute`.
        checked: the names are a file's and the user repeated them, so that what is there is only called if it is a
            class with the methods of its kind, a function whose annotated result has them, or one whose first
            parameter has a name that functions of the kind have.
    """
    for name in names:
        _trusted[name] = checked and _trusted.get(name, True)


def trust_typed(values: Any) -> None:
    """Trust every name in texts that the user typed, and in mappings and sequences of them; what is a path is none."""
    if isinstance(values, str):
        parts = (values, values.partition("=")[2], *_SEPARATORS.split(values))
        named = (name for name in parts if ":" in name)
        trust_names(name for name in named if not lexists(name))  # a stranger's folder may be called as its code is
    elif isinstance(values, Mapping):
        trust_typed(tuple(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            trust_typed(value)


def trusted_names() -> dict[str, bool]:
    """Return the names that may be imported now; True where only an object of its kind is called."""
    return dict(_trusted)


def load_attribute(name: str, kind: str, *interfaces: tuple[str, ...], parameters: Iterable[str] = ()) -> Any:
    """Import the object at `module:attribute`.

    Args:
        name: where it is.
        kind: of component, for messages.
        interfaces: alternatives of attributes that it, or what it makes, must have if the name is `checked`.
        parameters: names of the first parameter of functions that need no annotation then.

    Raises:
        BadSettings: it is not trusted, or not of that kind.
        ImportError, AttributeError, TypeError, ValueError: it cannot be imported; the module may raise others.
    """
    require_trusted(name, kind)
    component = _imported(name)
    is_function = (
        inspect.isfunction(component) and next(iter(inspect.signature(component).parameters), "") in parameters
    )
    if _trusted[name] and not is_function and not _has_interface(component, interfaces):
        interface_names = " or ".join(", ".join(parts) for parts in interfaces)
        functions = f", and none whose first parameter is {' or '.join(parameters)}" if parameters else ""
        raise BadSettings(
            f"{kind} '{name}' is not called: it is no class with {interface_names}, and no function whose result is "
            f"annotated with one{functions}. Name such a class, or annotate the function."
        )
    return component


def require_trusted(name: str, kind: str) -> None:
    """Refuse code that a file names and the user does not.

    Raises:
        BadSettings: it is not trusted.
    """
    if name not in _trusted:
        raise BadSettings(
            f"{kind} '{name}' is code that a file names, and not you: look at it, and name it yourself, in the option "
            f"that takes it or with --trust {name}, to run it."
        )


def name_object(name: str, component: Any) -> str:
    """Name by which this process loads an object, now trusted: its `module:attribute`, or else `object:NAME`."""
    path = _importable_name(component)
    if not path:
        path, _objects[name] = f"{OBJECT}:{name}", component
    trust_names([path])
    return path


def _importable_name(component: Any) -> str:
    """The `module:attribute` that gives this very object; empty where there is none."""
    module, attribute = getattr(component, "__module__", None), getattr(component, "__qualname__", "")
    if module not in (None, "__main__") and attribute and "<" not in attribute:
        with suppress(ImportError, AttributeError, ValueError):
            if _imported(f"{module}:{attribute}") is component:
                return f"{module}:{attribute}"
    return ""


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    if module == OBJECT:
        if attribute not in _objects:
            raise ImportError("it was an object of another process: give it to emend.run again")
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
    return component is not None and any(all(hasattr(component, part) for part in parts) for parts in interfaces)


def nearest(name: str, known: list[str]) -> str:
    """A hint with the nearest known name, or with all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known))}."


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Finds components by name and imports them when they are loaded.

    `builtin` maps a name to (`module:attr`, one-line summary); the summary is here so that listing imports nothing.
    `aliases` maps further names to built-in ones; `interfaces` and `parameters` are as in `load_attribute`.
    `unlisted` are components that a command uses by name, and that nobody chooses from a list.
    """

    kind: str
    group: str
    builtin: dict[str, tuple[str, str]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    interfaces: tuple[tuple[str, ...], ...] = ()
    parameters: tuple[str, ...] = ()
    unlisted: dict[str, str] = field(default_factory=dict)

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages; they cannot replace a built-in name."""
        points = entry_points(group=self.group)
        return {point.name: point for point in points if point.name not in self.builtin | self.aliases | self.unlisted}

    def names(self) -> list[str]:
        """All names that can be loaded."""
        return [*self.builtin, *self.plugins]

    def installed(self, name: str) -> bool:
        """Return True if the name is built in, or an entry point of an installed package."""
        return name in self.builtin or name in self.aliases or name in self.plugins

    def load(self, name: str) -> T:
        """The component of that name, or at that `module:attr`.

        Raises:
            BadSettings: unknown name, or a plug-in that cannot be imported.
        """
        if (known := self.aliases.get(name, name)) in self.builtin:
            return self._resolve(name, self.builtin[known][0])
        if name in self.unlisted:
            return self._resolve(name, self.unlisted[name])
        if name in self.plugins:
            return self._resolve(name, self.plugins[name].value)
        if ":" in name:
            return self._resolve(name, name, from_user=True)
        raise BadSettings(f"unknown {self.kind} '{name}': {nearest(name, self.names())}")

    @contextmanager
    def plugin_errors(self, name: str) -> Iterator[None]:
        """Context around the creation and use of a component, which names the plug-in in its errors.

        Raises:
            BadSettings: for any error of a plug-in other than Emend's own; errors of built-in components pass.
        """
        try:
            yield
        except EmendError:
            raise
        except Exception as error:
            if name in self.builtin:
                raise
            raise BadSettings(
                f"{self.kind} '{name}' cannot be made or used ({type(error).__name__}: {error}): "
                f"see docs/how-to/extend.md for the interface of a{'n' * (self.kind[0] in 'aeiou')} {self.kind}."
            ) from error

    def _resolve(self, name: str, path: str, from_user: bool = False) -> T:
        try:
            load = partial(load_attribute, path, self.kind, *self.interfaces, parameters=self.parameters)
            component: Any = load() if from_user else _imported(path)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise BadSettings(
                f"{self.kind} '{name}' cannot be loaded from '{path}': {error}. "
                "Install its package, or correct the module:attribute."
            ) from error
        return component  # type: ignore[no-any-return]

    def rows(self) -> Iterator[dict[str, str]]:
        """Name and summary of each component; for a plug-in its docstring's first line, or why it cannot be loaded."""
        for name, (_, summary) in self.builtin.items():
            yield {"name": name, "summary": summary}
        for name in self.plugins:
            try:
                summary = (inspect.getdoc(self.load(name)) or "").partition("\n")[0]
            except BadSettings as error:
                summary = f"broken: {error}"
            yield {"name": name, "summary": summary}
