"""Names of countries with their nouns for inhabitants and adjectives."""

import threading
import tomllib
from functools import cache
from pathlib import Path

from emend.memory.values.letters import fold_letters

# Without it every thread of a run that begins reads the table, which takes 20 ms of CPU.
_reading = threading.Lock()


def nation_words(name: str) -> tuple[str, ...]:
    """Return the other names of a country and the words for its people; none for other names.

    >>> nation_words("Denmark")
    ('Kingdom of Denmark', 'Danish', 'Dane')

    scripts/values/make_nations.py generates the table from the World Factbook. An adjective is not
    a name of the country: `nation_words("Danish")` is empty.
    """
    with _reading:
        nations = _nations()
    words = nations.get(_key(name), ())
    return tuple(word for word in words if _key(word) != _key(name))


def _key(name: str) -> str:
    return fold_letters(name).replace(".", "").removeprefix("the ").strip()


@cache
def _nations() -> dict[str, tuple[str, ...]]:
    rows = tomllib.loads((Path(__file__).parent / "nations.toml").read_text("utf-8"))["nation"]
    return {_key(name): (*row["names"], *row["people"]) for row in rows for name in row["names"]}
