"""Derive the answers of ReCoE's released comparative and sorting questions again, from the numbers in their facts.

    python -m scripts.benchmarks.check_recoe_answers FOLDER

A question is covered where its words say what is compared and in which direction, and each entity has exactly one
number in the atomic facts that speak of it. Other questions (careers, closeness, places) cannot be decided by
rules, and are left out.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.memory.embeddings.embed import FUNCTION_WORDS
from emend.memory.retrieval.tokens import stems, words

RISING = frozenset(
    "small smallest smaller short shortest shorter low lowest lower least less few fewest fewer early "
    "earliest earlier old oldest older first light lightest lighter narrow narrowest shallow shallowest "
    "slow slowest slower".split()
)
FALLING = frozenset(
    "large largest larger big biggest bigger long longest longer high highest higher most more great "
    "greatest greater late latest later new newest newer recent young youngest younger last tall tallest "
    "taller heavy heaviest heavier wide widest deep deepest fast fastest faster populous".split()
)
DATED = frozenset(
    stems(
        "date founding founded established establishment year chronological born birth old oldest older "
        "earlier earliest later latest opened built publication published release released age newer younger"
    )
)
SYNONYMS = {
    frozenset(stems("populous people inhabitants")): frozenset(stems("population")),
    frozenset(stems("size large larger largest big bigger biggest")): frozenset(stems("area")),
    frozenset(stems("tall taller tallest high higher highest height")): frozenset(stems("height elevation tall high")),
    frozenset(stems("long longer longest")): frozenset(stems("length long")),
    frozenset(stems("old oldest older chronological founding early earlier earliest")): frozenset(
        stems("founded established built opened establishment founding born")
    ),
}
"""What a question may call a quantity, and what facts call it."""
_NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?:\s*(thousand|million|billion|trillion)\b)?(?!\w)")
_YEAR = re.compile(r"\b(1\d{3}|20[0-3]\d)\b")
_CONDITION = re.compile(
    r"\bthan (?:or equal to )?\d|\bat (?:the time of )?(?:their )?deaths?\b|\bdens|\brating|\bfirst film\b"
)
"""A condition in place of a comparison, or a quantity that is computed of others."""
SCALES = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


class Entity(NamedTuple):
    """An entity with the atomic facts about it."""

    name: str
    facts: Sequence[str]


def entities_of(row: Mapping[str, Any]) -> list[Entity]:
    """The entities of a row, in its order."""
    choices = row["facts_per_choice"]
    entities = []
    for place in range(1, 6):
        if f"choice_{place}_facts" in choices and f"entity{place}" in choices:
            facts = choices[f"choice_{place}_facts"]
            atoms = [atom for fact in facts for atom in _texts(fact.get("atomic_facts"))]
            entities.append(Entity(choices[f"entity{place}"], atoms))
    return entities


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value or "")]


def derive(row: Mapping[str, Any]) -> list[str] | None:
    """The names in the order that the question asks for; None where the rules cannot say."""
    entities = entities_of(row)
    text = str(row["question"])
    if _CONDITION.search(text):
        return None
    for each in entities:
        text = text.replace(each.name, " ")
    falling = direction(text)
    if falling is None or len(entities) < 2:
        return None
    values = [value_of(each, text) for each in entities]
    if None in values or len(set(values)) < len(values):
        return None
    ranked = sorted(zip(values, entities, strict=True), key=lambda pair: float(pair[0] or 0), reverse=falling)
    return [entity.name for _, entity in ranked]


def direction(text: str) -> bool | None:
    """True from the greatest on, False from the least on; None where the words of both kinds, or none, are there."""
    _, marker, order = text.rpartition(" from ")
    head = order.partition(" to ")[0] if marker else text
    falls = [word in FALLING for word in words(head) if word in RISING or word in FALLING]
    return falls[0] if falls and len(set(falls)) == 1 else None


def value_of(entity: Entity, question: str) -> float | None:
    """The one number of the facts that speak of what the question compares."""
    quantity = {stem for stem in stems(question) if stem not in FUNCTION_WORDS}
    is_dated = bool(quantity & DATED) and not quantity & set(stems("area population height elevation length size"))
    for in_question, in_facts in SYNONYMS.items():
        if quantity & in_question:
            quantity |= in_facts
    about = [fact for fact in entity.facts if quantity & (set(stems(fact)) - set(stems(entity.name)))]
    values = {value for fact in about for value in numbers(fact, is_dated)}
    return next(iter(values)) if len(values) == 1 else None


def numbers(fact: str, is_dated: bool) -> Iterator[float]:
    """The years of a fact, or its other numbers; of several, as in two units, the first."""
    if is_dated:
        yield from {float(year) for year in _YEAR.findall(fact)}
        return
    for number, scale in _NUMBER.findall(fact):
        if not (_YEAR.fullmatch(number) and not scale):
            yield float(number.replace(",", "")) * SCALES[scale]
            return


def agrees(row: Mapping[str, Any], ranked: Sequence[str]) -> bool:
    """True if the released answer follows from an order of the entities."""
    answer, names = plain(str(row["answer"])), [plain(name) for name in ranked]
    if answer in ("yes", "no"):
        places = sorted(names, key=plain(str(row["question"])).find)
        return (places[0] == names[0]) == (answer == "yes")
    if "," in answer:
        return [plain(part) for part in answer.split(",")] == names
    return answer == names[0]


def plain(name: str) -> str:
    """A name without article, final full stop and case."""
    return name.strip().rstrip(".").casefold().replace("the ", "")


def main() -> None:
    """Print coverage and agreement of both schemes, and the questions apart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for scheme in ("comparative", "sorting"):
        rows = json.loads((folder / f"{scheme}.json").read_text(encoding="utf-8"))
        derived = [(row, ranked) for row in rows if (ranked := derive(row)) is not None]
        outcomes = Counter(agrees(row, ranked) for row, ranked in derived)
        share = 100 * outcomes[True] / max(1, len(derived))
        print(f"{scheme}: {len(derived)} of {len(rows)} covered, {outcomes[True]} agree ({share:.1f}%)")
        for row, ranked in derived:
            if not agrees(row, ranked):
                facts = {each.name: value_of(each, str(row["question"])) for each in entities_of(row)}
                print(f"  {row['question']} {row['answer']} / {', '.join(ranked)} {facts}")


if __name__ == "__main__":
    main()
