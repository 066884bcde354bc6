"""One registry per kind of part: built-in names, entry points of other packages, and `module:attr`."""

import difflib
import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from emend.memory.errors import BadSettings, EmendError

T = TypeVar("T")


def nearest(name: str, known: list[str]) -> str:
    """A hint naming the nearest known name, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known))}."


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Finds parts by name; nothing is imported before it is asked for.

    `builtin` maps a name to (`module:attr`, one-line summary); the summary stands here so that listing imports nothing.
    `also` has other names of these.
    """

    kind: str
    group: str
    builtin: dict[str, tuple[str, str]] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages; a built-in name cannot be taken over."""
        found = entry_points(group=self.group)
        return {point.name: point for point in found if point.name not in self.builtin | self.also}

    def names(self) -> list[str]:
        """All names that can be loaded."""
        return [*self.builtin, *self.plugins]

    def load(self, name: str) -> T:
        """The part of that name, or at that `module:attr`.

        Raises:
            BadSettings: unknown name, or a plug-in that cannot be imported.
        """
        if (known := self.also.get(name, name)) in self.builtin:
            return self._resolve(name, self.builtin[known][0])
        if name in self.plugins:
            return self._resolve(name, self.plugins[name].value)
        if ":" in name:
            return self._resolve(name, name)
        raise BadSettings(f"unknown {self.kind} '{name}': {nearest(name, self.names())}")

    @contextmanager
    def told_of(self, name: str) -> Iterator[None]:
        """Around the making and the use of a part: what a plug-in raises there is told as its own.

        Raises:
            BadSettings: for whatever else than Emend's errors a plug-in raises; a built-in part's errors pass.
        """
        try:
            yield
        except EmendError:
            raise
        except Exception as error:
            if name in self.builtin:
                raise
            raise BadSettings(
                f"{self.kind} '{name}' cannot be made or used ({type(error).__name__}: {error}): see docs/extend.md "
                f"for what the name of a{'n' * (self.kind[0] in 'aeiou')} {self.kind} has to stand for."
            ) from error

    def _resolve(self, name: str, path: str) -> T:
        module, _, attribute = path.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise BadSettings(
                f"{self.kind} '{name}' cannot be loaded from '{path}': {error}. "
                "Install its package, or correct the module:attribute."
            ) from error
        return found  # type: ignore[no-any-return]

    def rows(self) -> Iterator[dict[str, str]]:
        """Name and summary of each; a plug-in's summary is its docstring's first line, or why it is broken."""
        for name, (_, summary) in self.builtin.items():
            yield {"name": name, "summary": summary}
        for name in self.plugins:
            try:
                summary = (inspect.getdoc(self.load(name)) or "").partition("\n")[0]
            except BadSettings as error:
                summary = f"broken: {error}"
            yield {"name": name, "summary": summary}
