"""Strategies by name, chained with `>`: `focus>hybrid` searches with hybrid for the part of the query that asks."""

import inspect
import json
import math
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from emend.memory.errors import BadSettings
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus, Retriever
from emend.memory.retrieval.registry import RETRIEVERS

Factory = Callable[[Corpus], Retriever]

INNER = "inner"
"""A strategy that wraps another takes that one's factory as an argument of this name."""

_PART = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<settings>[^()]*)\))?")


def load_retriever(spec: str) -> Factory:
    """The factory of one strategy, or of a chain of them joined by `>`; a name may be `module:attr`.

    Settings of a strategy stand in parentheses: `bm25(tokens=stems, k1=1.2)>threshold(least=16)`. Numbers, `true` and
    `false` are read as such, anything else is text.

    A query passes the chain from left to right. One strategy searches; those before it wrap it, the first outermost,
    and those after it work on what it found: `a>search>b` is a around b around search. A chain in which none
    searches ends in the last one's own default.

    Raises:
        BadSettings: an unknown or empty name, a part that cannot be imported or called, two that search, settings
            that the strategy does not have.
    """
    names = [name.strip() for name in spec.split(">")]
    if not all(names):
        raise BadSettings(f"retriever '{spec}' has an empty place in its chain: write for example focus>hybrid.")
    loaded = [(name, _part(name)) for name in names]
    searching = [place for place, (_, factory) in enumerate(loaded) if not _wraps(factory)]
    if len(searching) > 1:
        first, second = (names[place] for place in searching[:2])
        raise BadSettings(
            f"retriever '{spec}': both '{first}' and '{second}' search by themselves, and neither wraps another. "
            "Keep one of them."
        )
    at = searching[0] if searching else len(loaded) - 1
    chain = loaded[at][1]
    for _, wrapper in [*loaded[at + 1 :], *reversed(loaded[:at])]:
        chain = partial(wrapper, **{INNER: chain})
    return _named(chain, spec) if len(loaded) > 1 or isinstance(chain, partial) else chain


def _part(text: str) -> Any:
    """The factory of one place of a chain, with its settings."""
    match = _PART.fullmatch(text)
    if match is None:
        raise BadSettings(f"retriever '{text}' cannot be read: write for example bm25(tokens=stems).")
    factory = _factory(match["name"])
    settings = dict(_setting(text, pair) for pair in (match["settings"] or "").split(",") if pair.strip())
    if not settings:
        return factory
    known = [name for name in list(inspect.signature(factory).parameters)[1:] if name != INNER]
    for name in settings:
        if name not in known:
            raise BadSettings(f"retriever '{match['name']}' has no setting '{name}': {nearest(name, known)}")
    return partial(factory, **_of_their_types(match["name"], factory, settings))


def _of_their_types(name: str, factory: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as the factory's annotations want them; one that is annotated with nothing plain stays as it is.

    Raises:
        BadSettings: a value is of another type, or no finite number.
    """
    try:
        hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    except (NameError, TypeError):  # a plug-in's names that only type checkers import, or no function
        hints = {}
    found = dict(settings)
    for setting, value in settings.items():
        try:
            wanted = TypeAdapter(hints[setting]) if setting in hints else None
        except (PydanticUserError, NameError):  # a protocol, or a class that pydantic does not know
            wanted = None
        try:
            found[setting] = wanted.validate_python(value) if wanted else value
            if isinstance(found[setting], float) and not math.isfinite(found[setting]):
                raise ValueError("it is no finite number")
        except ValueError as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise BadSettings(f"setting '{setting}' of retriever '{name}': {said}, seen: {value!r}.") from error
    return found


def _setting(text: str, pair: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not (name and equals and value):
        raise BadSettings(f"retriever '{text}': '{pair.strip()}' is no setting; write for example least=16.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _factory(name: str) -> Any:
    found: Any = RETRIEVERS.load(name)
    # Who has made a LangChain retriever has imported LangChain; everybody else is spared it.
    if "langchain_core.retrievers" in sys.modules:
        from emend.memory.retrieval.langchain import adapted

        found = adapted(found)
    if not callable(found):
        raise BadSettings(
            f"retriever '{name}' is a {type(found).__name__}, no factory: name a class or function that takes a "
            "corpus and returns something with search(query, k), or a LangChain retriever."
        )
    if inspect.isroutine(found) and not inspect.signature(found).parameters:
        raise BadSettings(f"retriever '{name}' takes no corpus: write a function or class of one argument.")
    return found


def _wraps(factory: Any) -> bool:
    try:
        return INNER in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # written in C, or no signature
        return False


def _named(chain: Factory, spec: str) -> Factory:
    """The same, known by its spec: what a run's records say of it."""

    def bind(corpus: Corpus) -> Retriever:
        return chain(corpus)

    bind.__name__ = bind.__qualname__ = spec
    bind.__doc__ = f"The chain {spec}."
    return bind
