"""Composition of questions in ReCoE's six schemes over a graph of facts, with alterations that
change the answer.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from emend.evals.data.facts.fact_graph import FactGraph

_NUMBER = re.compile(
    r"(?:about |around |c\. )?(?P<number>[-\u2212]?\d+(?:,\d{3})*(?:\.\d+)?)(?: "
    r"?(?P<unit>\D.*))?"
)
YEARS = range(1000, 2200)


class Measure(NamedTuple):
    """Number with its unit, which may be empty."""

    number: float
    unit: str


class DegreeWords(NamedTuple):
    """Comparative of two values, and superlatives for the largest and the smallest of several."""

    comparative: str
    superlative: str
    opposite: str


GREATER = DegreeWords("greater", "greatest", "least")
LATER = DegreeWords("later", "latest", "earliest")


def parse_measure(text: str) -> Measure | None:
    """Parse a text such as `6,400 kilometres`; return None if it is not a number with a unit.

    >>> parse_measure("about 6,400 kilometres")
    Measure(number=6400.0, unit='kilometres')
    """
    hit = _NUMBER.fullmatch(text.strip())
    if hit is None:
        return None
    return Measure(
        float(hit["number"].replace(",", "").replace("\u2212", "-")), (hit["unit"] or "").casefold()
    )


def degree_words(measures: Sequence[Measure]) -> DegreeWords:
    """Return the comparison words for values: "later" for years, "greater" for other numbers."""
    are_years = all(not each.unit and each.number in YEARS for each in measures)
    return LATER if are_years else GREATER


# Number of entities in superlative questions and in sorting questions.
CHOICES, SORTED = 4, 3
# Maximum and minimum number of entities in counting questions.
MEMBERS, FEWEST = 5, 2
# Number of draws per requested record.
TRIES = 60
# Subject and relation.
Fact = tuple[str, str]


class Alteration(NamedTuple):
    """Fact whose object is changed from `old` to `new`."""

    subject: str
    relation: str
    old: str
    new: str


@dataclass(frozen=True)
class ReasoningRecord:
    """Question with its answer, its counterfactual answer, and the facts that support them.

    `alterations` has a tuple per altered sub-question; `unaltered` are the facts that are not
    changed.
    """

    scheme: str
    question: str
    answer: str
    counterfactual_answer: str
    alterations: tuple[tuple[Alteration, ...], ...]
    unaltered: tuple[Fact, ...]

    @property
    def altered(self) -> list[Alteration]:
        """Alterations of all sub-questions."""
        return [each for part in self.alterations for each in part]


class RecordComposer:
    """Composer of records that keep their counterfactual answers if the alterations of all records
    are applied.

    Args:
        graph: the facts.
        rng: random number generator.
        allow_conflicts: allow an alteration of one record to change a fact of another.
    """

    def __init__(self, graph: FactGraph, rng: random.Random, allow_conflicts: bool = False) -> None:
        self._graph, self._rng, self._allow_conflicts = graph, rng, allow_conflicts
        self._changed: set[Fact] = set()
        self._consulted: set[Fact] = set()
        self._questions: set[str] = set()
        self._measured, self._classes = _measured_entities(graph), _classes(graph)
        self._schemes: Mapping[str, Callable[[], ReasoningRecord | None]] = {
            "superlative": self._superlative,
            "comparative": self._comparative,
            "sorting": self._sorting,
            "counting": self._counting,
            "aggregation": partial(self._composed, "aggregation"),
            "subtraction": partial(self._composed, "subtraction"),
        }

    def records(self, scheme: str, count: int) -> Iterator[ReasoningRecord]:
        """Yield up to `count` records of a scheme, fewer if the facts do not yield more."""
        for _ in range(TRIES * count):
            record = self._schemes[scheme]()
            if record is not None and self._admits(record):
                self._add(record)
                yield record
                count -= 1
                if count == 0:
                    return

    def _admits(self, record: ReasoningRecord) -> bool:
        altered = {(each.subject, each.relation) for each in record.altered}
        is_apart = not altered & (
            self._changed | self._consulted
        ) and not self._changed.intersection(record.unaltered)
        return record.question not in self._questions and (is_apart or self._allow_conflicts)

    def _add(self, record: ReasoningRecord) -> None:
        self._questions.add(record.question)
        self._changed |= {(each.subject, each.relation) for each in record.altered}
        self._consulted |= {*record.unaltered}

    def _draw_measured(self, size: int) -> tuple[str, list[str]] | None:
        """Draw a relation and `size` entities with distinct values in one unit, in descending order
        of value; None if there are none or the draw fails.
        """
        relations = [each for each, values in self._measured.items() if len(values) >= size]
        if not relations:
            return None
        relation = self._rng.choice(relations)
        values = self._measured[relation]
        drawn = self._rng.sample(sorted(values), size)
        if (
            len({values[each].number for each in drawn}) < size
            or len({values[each].unit for each in drawn}) > 1
        ):
            return None
        return relation, sorted(drawn, key=lambda each: -values[each].number)

    def _swapped(self, relation: str, pair: tuple[str, str]) -> tuple[tuple[Alteration, ...], ...]:
        first, second = (str(self._graph.object_of(each, relation)) for each in pair)
        return (
            (
                Alteration(pair[0], relation, first, second),
                Alteration(pair[1], relation, second, first),
            ),
        )

    def _superlative(self) -> ReasoningRecord | None:
        drawn = self._draw_measured(CHOICES) or self._draw_measured(CHOICES - 1)
        if drawn is None:
            return None
        relation, ranked = drawn
        other = self._rng.choice(ranked[1:])
        most = self._words(relation, ranked).superlative
        question = f"Which of {self._listed(ranked)} has the {most} {_noun(relation)}?"
        return self._choice("superlative", question, relation, ranked, other)

    def _comparative(self) -> ReasoningRecord | None:
        drawn = self._draw_measured(2)
        if drawn is None:
            return None
        relation, ranked = drawn
        degree, pair = self._words(relation, ranked).comparative, (ranked[0], ranked[1])
        subject, other = self._rng.sample(pair, 2)
        names = self._label(subject), self._label(other)
        if self._rng.random() < 0.5:
            question = f"Which has the {degree} {_noun(relation)}, {names[0]} or {names[1]}?"
            return self._choice("comparative", question, relation, ranked, ranked[1])
        question = f"Does {names[0]} have a {degree} {_noun(relation)} than {names[1]}?"
        answers = ("Yes", "No") if subject == ranked[0] else ("No", "Yes")
        return ReasoningRecord("comparative", question, *answers, self._swapped(relation, pair), ())

    def _sorting(self) -> ReasoningRecord | None:
        drawn = self._draw_measured(SORTED)
        if drawn is None:
            return None
        relation, ranked = drawn
        first, second = sorted(self._rng.sample(range(SORTED), 2))
        swapped = list(ranked)
        swapped[first], swapped[second] = ranked[second], ranked[first]
        words = self._words(relation, ranked)
        order = f"from the {words.superlative} to the {words.opposite}"
        question = f"Sort {self._listed(ranked)} by {_noun(relation)}, {order}."
        before, after = (", ".join(map(self._label, each)) for each in (ranked, swapped))
        pair = ranked[first], ranked[second]
        left = tuple((each, relation) for each in ranked if each not in pair)
        return ReasoningRecord(
            "sorting", question, before, after, self._swapped(relation, pair), left
        )

    def _choice(
        self, scheme: str, question: str, relation: str, ranked: Sequence[str], other: str
    ) -> ReasoningRecord:
        """Return a record whose answer is the first entity, and `other` once their values are
        swapped.
        """
        left = tuple((each, relation) for each in ranked[1:] if each != other)
        alterations = self._swapped(relation, (ranked[0], other))
        return ReasoningRecord(
            scheme, question, self._label(ranked[0]), self._label(other), alterations, left
        )

    def _counting(self) -> ReasoningRecord | None:
        part = self._count()
        if part is None:
            return None
        before, after = str(part.before), str(part.after)
        question = f"For how many of {part.entities} is the {part.noun} {part.target}?"
        return ReasoningRecord(
            "counting", question, before, after, ((part.alteration,),), part.unaltered
        )

    def _composed(self, scheme: str) -> ReasoningRecord | None:
        """Return a record about the sum or the non-negative difference of two counts, of which the
        first is altered.

        Both counts use the same relation, so that they have one domain and compatible types
        (appendix A.2.1), and no entity is counted twice.
        """
        if not self._classes:
            return None
        relation = self._rng.choice(sorted(self._classes))
        entities = self._rng.sample(sorted(self._classes[relation]), len(self._classes[relation]))
        half = len(entities) // 2
        first, second = (
            self._count_by(relation, each) for each in (entities[half:], entities[:half])
        )
        if first is None or second is None:
            return None
        sign = 1 if scheme == "aggregation" else -1
        before, after = first.before + sign * second.before, first.after + sign * second.before
        if min(before, after) < 0:
            return None
        end = "By how much is the first number greater than the second?"
        if sign == 1:
            end = "What is the total?"
        question = (
            f"Count for how many of {first.clause}, and for how many of {second.clause}. {end}"
        )
        left = tuple(
            sorted(
                (first.facts | second.facts)
                - {(first.alteration.subject, first.alteration.relation)}
            )
        )
        return ReasoningRecord(
            scheme, question, str(before), str(after), ((first.alteration,),), left
        )

    def _count(self) -> "Counting | None":
        """Draw a counting of entities for a random relation; None if it fails."""
        if not self._classes:
            return None
        relation = self._rng.choice(sorted(self._classes))
        return self._count_by(relation, sorted(self._classes[relation]))

    def _count_by(self, relation: str, entities: Sequence[str]) -> "Counting | None":
        """Draw a counting of entities with one object of a relation, which one entity gains or
        loses.

        None if there are fewer than two entities, all drawn ones share one object, or old and new
        object share a name.
        """
        if len(entities) < FEWEST:
            return None
        drawn = self._rng.sample(entities, min(len(entities), self._rng.randint(3, MEMBERS)))
        objects = {each: str(self._graph.object_of(each, relation)) for each in drawn}
        target = self._rng.choice(list(objects.values()))
        subject = self._rng.choice(drawn)
        others = sorted({*objects.values()} - {target})
        if not others:
            return None
        new = self._rng.choice(others) if objects[subject] == target else target
        if self._graph.same_name(objects[subject], new):
            return None
        before = sum(each == target for each in objects.values())
        after = before + (1 if new == target else -1)
        alteration = Alteration(subject, relation, objects[subject], new)
        facts = frozenset((each, relation) for each in drawn)
        return Counting(
            self._listed(drawn),
            _noun(relation),
            self._label(target),
            before,
            after,
            alteration,
            facts,
        )

    def _words(self, relation: str, entities: Sequence[str]) -> DegreeWords:
        return degree_words([self._measured[relation][each] for each in entities])

    def _label(self, entity: str) -> str:
        return self._graph.label(entity)

    def _listed(self, entities: Sequence[str]) -> str:
        """Return the names in alphabetical order, which does not reveal the answer."""
        labels = sorted(map(self._label, entities))
        return f"{', '.join(labels[:-1])} and {labels[-1]}"


class Counting(NamedTuple):
    """Count of entities with a certain object of a relation, before and after an alteration."""

    entities: str
    noun: str
    target: str
    before: int
    after: int
    alteration: Alteration
    facts: frozenset[Fact]

    @property
    def clause(self) -> str:
        """Clause of a question with the entities and the condition that is counted."""
        return f"{self.entities} the {self.noun} is {self.target}"

    @property
    def unaltered(self) -> tuple[Fact, ...]:
        """Facts that are not altered."""
        return tuple(sorted(self.facts - {(self.alteration.subject, self.alteration.relation)}))


def _noun(relation: str) -> str:
    return relation.removeprefix("the ")


def _measured_entities(graph: FactGraph) -> dict[str, dict[str, Measure]]:
    """Return the entities with a numeric object and their values, by relation."""
    measured: dict[str, dict[str, Measure]] = defaultdict(dict)
    for subject, relation, target in _facts(graph):
        if measure := parse_measure(target):
            measured[relation][subject] = measure
    return dict(measured)


def _classes(graph: FactGraph) -> dict[str, list[str]]:
    """Return the entities with a non-numeric object, by relation.

    Only relations of which two entities share an object and a third has another one are included.
    """
    members: dict[str, dict[str, str]] = defaultdict(dict)
    for subject, relation, target in _facts(graph):
        if parse_measure(target) is None:
            members[relation][subject] = target
    return {
        relation: list(objects)
        for relation, objects in members.items()
        if 1 < len(set(objects.values())) < len(objects) and len(objects) > 2
    }


def _facts(graph: FactGraph) -> Iterator[tuple[str, str, str]]:
    """Yield the facts, without those whose relation is a cloze instead of a noun."""
    for subject in graph.subjects:
        for relation in graph.relations_of(subject):
            if "{}" not in relation:
                yield subject, relation, str(graph.object_of(subject, relation))
