"""Invented tables of facts: people with a place of birth, places with a mayor, mayors with an employer, and so on."""

import csv
from pathlib import Path

from emend.evals.data.facts.fact_graph import FactGraph, FactHop

PEOPLE = ("Ana Rojo", "Luis Vera", "Mira Osei", "Tom Brandt", "Ida Holt", "Paul Roy")
PLACES = ("Brask", "Kesselby", "Ostmark", "Halden", "Dunmere", "Skerry")
MAYORS = ("Ines Rove", "Eva Lind", "Jon Dahl", "Kai Moor", "Una Pell", "Sol Quill")
FIRMS = ("Calder Lines", "Tarn Works", "Orsa Bank", "Vesk Mills", "Ister Rail", "Marrow Press")
LANDS = ("Vaduria", "Norland", "Estuary", "Brenholm", "Karst", "Lowen")
COLUMNS = ("place of birth", "mayor", "employer", "country")


def facts() -> list[FactHop]:
    layers = (PEOPLE, PLACES, MAYORS, FIRMS, LANDS)
    return [
        FactHop(subject, relation, target)
        for relation, subjects, targets in zip(COLUMNS, layers[:-1], layers[1:], strict=True)
        for subject, target in zip(subjects, targets, strict=True)
    ]


def graph(names: dict[str, tuple[str, ...]] | None = None) -> FactGraph:
    return FactGraph(facts(), names)


def write_table(folder: Path) -> Path:
    """The facts as a CSV file; Vaduria has an alias, and births have a question."""
    file = folder / "facts.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("subject", "relation", "object", "aliases", "question"))
        for hop in facts():
            alias = "Land of Vadur" if hop.object == "Vaduria" else ""
            writer.writerow((*hop, alias, f"Where was {hop.subject} born?" if hop.subject in PEOPLE else ""))
    return file
