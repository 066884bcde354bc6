"""Labelled replies of authors: files in tests/data/construction, and what all tests on them share."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import pytest

from tests.paths import DATA

FOLDER = DATA / "construction"


class Labelled(Protocol):
    """A reply that is to `keep` or to `drop`."""

    @property
    def label(self) -> str: ...

    @property
    def kind(self) -> str: ...


T = TypeVar("T", bound=Labelled)


def read_items(name: str) -> Any:
    """The items or documents that the replies are about."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def read_specimens(name: str, specimen: Callable[..., T]) -> list[T]:
    """The labelled replies of a file."""
    return [specimen(**json.loads(line)) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def named(specimens: Iterable[T], text_of: Callable[[T], str]) -> list[Any]:
    """Parameters with ids that say the kind and the beginning of a reply; all but the first two of a kind are slow."""
    counts = Counter[str]()
    parameters = []
    for each in specimens:
        counts[each.kind] += 1
        marks = [pytest.mark.slow] if counts[each.kind] > 2 else []
        parameters.append(pytest.param(each, id=f"{each.kind}: {text_of(each)[:80]}", marks=marks))
    return parameters


def once(rejecting_filter: Callable[[T], str]) -> Callable[[T], str]:
    """The function, called once for each reply: a test of each filter and a test of all of them ask it the same."""
    filters: dict[int, str] = {}

    def cached(specimen: T) -> str:
        if id(specimen) not in filters:
            filters[id(specimen)] = rejecting_filter(specimen)
        return filters[id(specimen)]

    return cached


def check_keeping(specimens: Sequence[T], rejecting_filter: Callable[[T], str]) -> None:
    """Check that precision and recall of keeping are at least 95%."""
    kept = [each for each in specimens if not rejecting_filter(each)]
    right = sum(each.label == "keep" for each in kept)
    assert right / len(kept) >= 0.95
    assert right / sum(each.label == "keep" for each in specimens) >= 0.95
