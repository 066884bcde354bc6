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

from emend.memory.retrieval.tokens import FUNCTION_WORDS, stems, words
from scripts.benchmarks.fact_quantities import Quantity, first_quantity, rank, years

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
_CONDITION = re.compile(
    r"\bthan (?:or equal to )?\d|\bat (?:the time of )?(?:their )?deaths?\b|\bwhen (?:he|she|they)\b"
    r"|\bdens|\brating|\bfirst film\b"
)
"""A condition in place of a comparison, or a quantity that is computed of others."""


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
    values = [value for each in entities if (value := value_of(each, text))]
    order = rank(values, falling) if len(values) == len(entities) else None
    return None if order is None else [entities[place].name for place in order]


def direction(text: str) -> bool | None:
    """True from the greatest on, False from the least on; None where the words of both kinds, or none, are there."""
    _, marker, order = text.rpartition(" from ")
    head = order.partition(" to ")[0] if marker else text
    falls = [word in FALLING for word in words(head) if word in RISING or word in FALLING]
    return falls[0] if falls and len(set(falls)) == 1 else None


def value_of(entity: Entity, question: str) -> Quantity | None:
    """The one quantity of the facts that speak of what the question compares."""
    quantity = {stem for stem in stems(question) if stem not in FUNCTION_WORDS}
    is_dated = bool(quantity & DATED) and not quantity & set(stems("area population height elevation length size"))
    for in_question, in_facts in SYNONYMS.items():
        if quantity & in_question:
            quantity |= in_facts
    about = [fact for fact in entity.facts if quantity & (set(stems(fact)) - set(stems(entity.name)))]
    values = [value for fact in about for value in quantities(fact.replace(entity.name, " "), is_dated)]
    return values[0] if values and all(value.equals(values[0]) for value in values) else None


def quantities(fact: str, is_dated: bool) -> Iterator[Quantity]:
    """The years of a fact, or its first other number."""
    if is_dated:
        yield from years(fact)
    elif value := first_quantity(fact):
        yield value


def agrees(row: Mapping[str, Any], ranked: Sequence[str]) -> bool:
    """True if the released answer follows from an order of the entities."""
    answer, names = plain(str(row["answer"])), [plain(name) for name in ranked]
    if answer in ("yes", "no"):
        first = min(names, key=lambda name: _first_mention(name, names, plain(str(row["question"]))))
        return (first == names[0]) == (answer == "yes")
    if "," in answer:
        return [plain(part) for part in answer.split(",")] == names
    return answer == names[0] or bool(set(words(answer)) & distinct_words(names[0], names))


def _first_mention(name: str, names: Sequence[str], question: str) -> int:
    """Where a question first mentions an entity, by any word that only its name has; its length if it does not."""
    distinct, asked = distinct_words(name, names), words(question)
    return next((place for place, word in enumerate(asked) if word in distinct), len(asked))


def distinct_words(name: str, names: Sequence[str]) -> set[str]:
    """The words of a name that no other one has."""
    others = {word for each in names if each != name for word in words(each)}
    return set(words(name, FUNCTION_WORDS)) - others


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
