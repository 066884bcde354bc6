"""Strategies by name, chained with `>`: `focus>hybrid` searches with hybrid for the focused
query.
"""

import inspect
import json
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from emend.memory.errors import BadSettings, problem_of
from emend.memory.registry import nearest
from emend.memory.retrieval.adapters import adapt
from emend.memory.retrieval.base import Corpus, Retriever
from emend.memory.retrieval.registry import RETRIEVERS

Factory = Callable[[Corpus], Retriever]

# The parameter through which a wrapping strategy gets the inner one's factory.
INNER = "inner"

_PART = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<settings>[^()]*)\))?")


def load_retriever(spec: str) -> Factory:
    """Return the factory of a strategy, or of a chain joined by `>`; a name may be `module:attr`.

    Settings of a strategy are given in parentheses: `bm25(tokens=stems,
    k1=1.2)>threshold(least=16)`. Numbers, `true` and `false` are parsed; anything else is a string.

    A query passes the chain from left to right. One strategy searches; those before it wrap it, the
    first outermost, and those after it process its hits: `a>search>b` is a around b around search.
    A chain without a searching strategy uses the default inner strategy of its last part.

    Raises:
        BadSettings: an unknown or empty name, a part that cannot be imported or called, two
            searching strategies, or unknown settings.
    """
    names = [name.strip() for name in spec.split(">")]
    if not all(names):
        raise BadSettings(
            f"retriever '{spec}' has an empty part in its chain: write for example focus>hybrid."
        )
    loaded = [(name, _part(name)) for name in names]
    searching = [place for place, (_, factory) in enumerate(loaded) if not _wraps(factory)]
    if len(searching) > 1:
        first, second = (names[place] for place in searching[:2])
        raise BadSettings(
            f"retriever '{spec}': both '{first}' and '{second}' search on their own, and neither "
            "wraps another. Keep one of them."
        )
    at = searching[0] if searching else len(loaded) - 1
    chain = loaded[at][1]
    for _, wrapper in [*loaded[at + 1 :], *reversed(loaded[:at])]:
        chain = partial(wrapper, **{INNER: chain})
    return _named(chain, spec) if len(loaded) > 1 or isinstance(chain, partial) else chain


def _part(text: str) -> Any:
    """Return the factory of one part of a chain, with its settings bound."""
    match = _PART.fullmatch(text)
    if match is None:
        raise BadSettings(
            f"retriever '{text}' cannot be parsed: write for example bm25(tokens=stems)."
        )
    factory = _factory(match["name"])
    settings: dict[str, Any] = {}
    for pair in (match["settings"] or "").split(","):
        if not pair.strip():
            continue
        setting, value = _setting(text, pair)
        if setting in settings:
            raise BadSettings(f"retriever '{text}' sets '{setting}' twice: leave one out.")
        settings[setting] = value
    if not settings:
        return factory
    known = [name for name in list(inspect.signature(factory).parameters)[1:] if name != INNER]
    for name in settings:
        if name not in known:
            raise BadSettings(
                f"retriever '{match['name']}' has no setting '{name}': {nearest(name, known)}"
            )
    return partial(factory, **_typed(match["name"], factory, settings))


def _typed(name: str, factory: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Convert settings to the types of the factory's annotations; settings without a plain type
    stay unchanged.

    Raises:
        BadSettings: a value has a wrong type, is out of range, or is not finite.
    """
    try:
        hints = get_type_hints(
            factory.__init__ if inspect.isclass(factory) else factory, include_extras=True
        )
    except (NameError, TypeError):
        # annotations that only type checkers can import, or not a function
        hints = {}
    typed = dict(settings)
    for setting, value in settings.items():
        try:
            adapter = TypeAdapter(hints[setting]) if setting in hints else None
        except (PydanticUserError, NameError):  # a protocol, or a class that pydantic does not know
            adapter = None
        try:
            typed[setting] = adapter.validate_python(value) if adapter else value
            if isinstance(typed[setting], float) and not math.isfinite(typed[setting]):
                raise ValueError("it is not a finite number")
        except ValueError as error:
            reason = problem_of(error.errors()[0]) if isinstance(error, ValidationError) else error
            raise BadSettings(
                f"setting '{setting}' of retriever '{name}': {reason}, got {value!r}."
            ) from error
    return typed


def _setting(text: str, pair: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not (name and equals and value):
        raise BadSettings(
            f"retriever '{text}': '{pair.strip()}' is not a setting; write for example least=16."
        )
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _factory(name: str) -> Any:
    factory: Any = RETRIEVERS.load(name)
    if name not in RETRIEVERS.builtin:
        factory = adapt(factory, name)
    if not callable(factory):
        raise BadSettings(
            f"retriever '{name}' is a {type(factory).__name__}, not a factory: name a class or "
            "function that takes a corpus and returns something with search(query, k), or a "
            "LangChain retriever."
        )
    if inspect.isroutine(factory) and not inspect.signature(factory).parameters:
        raise BadSettings(
            f"retriever '{name}' does not accept a corpus: write a function or class of one "
            "argument."
        )
    return factory


def _wraps(factory: Any) -> bool:
    try:
        return INNER in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # written in C, or no signature
        return False


def _named(chain: Factory, spec: str) -> Factory:
    """Return the chain as a function named after its spec, for the run's records."""

    def bind(corpus: Corpus) -> Retriever:
        return chain(corpus)

    bind.__name__ = bind.__qualname__ = spec
    bind.__doc__ = f"The chain {spec}."
    return bind
