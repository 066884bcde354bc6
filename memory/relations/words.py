"""The closed classes and verbs of English of `words.toml`."""

import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))


def third_person(base: str) -> str:
    """The third person singular of a regular verb: 'lives' of 'live'."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "ch", "sh", "o")) else "s")


def __getattr__(name: str) -> frozenset[str]:
    """A list of `words.toml`, by its name in capitals."""
    if name.lower() not in _LISTS:
        raise AttributeError(f"words.toml has no list '{name.lower()}'")
    globals()[name] = frozenset(_LISTS[name.lower()].split())  # so that it is read once
    return frozenset(globals()[name])


BASES = frozenset(_LISTS["regular_verbs"].split())
THIRD_PERSON = frozenset(map(third_person, BASES))
INVARIABLE = frozenset(_LISTS["invariable_verbs"].split())
IRREGULAR_FORMS: dict[str, list[str]] = {base: forms for base, *forms in map(str.split, _LISTS["irregular_verbs"])}
"""Irregular past forms by base: the past tense, then the participle where it differs."""
PLACES = "|".join(_LISTS["places"].split())
