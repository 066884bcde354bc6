"""Invented world with about 580 names, 22 relations, 2,000 facts and all two-hop chains over them.

Names are composed of syllables, so that no other model can know the facts, and no fact is true in
the real world.
"""

import random
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

SYLLABLES = (
    "ba be bo da do du fa fe ga go ka ke ki ko la le li lo ma me mi mo na ne no pa pe ra re ri ro "
    "sa se so ta te ti to va ve vi vo za ze zo bra cle dra fro gri kle kra plo pra sta ste tri tro "
    "vla sho cha qui nor mar vel tor bel dan kor lun sel tam ven hal jor fen gar"
).split()
ENDINGS = {
    "country": "ia land ova or esh una",
    "city": "burg ton ville grad ar is mouth stad em ora",
    "last": "sen ez ov ini man ard ek ell us ino",
    "first": "a o in el ia us en y is ar",
    "company": "ex on tech soft ix um",
    "language": "ish ese ian i",
    "currency": "ar in ek al",
    "continent": "asia ica opa",
}
ADJECTIVES = (
    "Silent Golden Broken Hidden Last Burning Distant Empty Frozen Gentle Hollow Iron"
).split()
NOUNS = (
    "River Tower Garden Winter Mirror Lantern Harbor Crown Forest Letter Mountain Shadow"
).split()
CLUB_SUFFIXES = "United Rovers Stars Wolves Eagles City".split()
COMMON = {
    "occupation": "singer painter lawyer chemist pilot teacher journalist farmer sculptor surgeon "
    "composer architect",
    "sport": "football hockey rowing chess cycling fencing",
    "industry": "steel shipping banking farming mining energy textiles software aviation furniture",
    "genre": "novel poem play memoir satire tragedy",
}
COUNTS = {
    "country": 20, "city": 80, "language": 14, "continent": 5, "currency": 20,
    "club": 50, "company": 50, "person": 260, "work": 50,
}  # fmt: skip
HELD_KINDS = ("country", "city", "person", "club", "company", "work")
# Every fifth subject is held out from in-context facts, chains and yes/no items in training.
HELD_SHARE = 5


@dataclass(frozen=True)
class WorldRelation:
    """The templates of a relation; `{}` is the subject, and the object follows the template."""

    name: str
    subject: str
    object: str
    noun: str
    statements: tuple[str, ...]
    unseen_statements: tuple[str, ...]
    questions: tuple[str, ...]
    unseen_questions: tuple[str, ...]
    events: tuple[str, ...]
    unseen_events: tuple[str, ...]
    drilled_questions: tuple[str, ...] = ()

    @property
    def wh(self) -> str:
        """The question word for the object."""
        return "Who" if self.object == "person" else "What"


@dataclass(frozen=True)
class WorldFact:
    """A fact of the invented world."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True)
class WorldChain:
    """Two facts where the object of the first is the subject of the second."""

    first: WorldFact
    second: WorldFact


@cache
def relations() -> dict[str, WorldRelation]:
    """Return all relations by name, with the shared noun templates first."""
    table = tomllib.loads((Path(__file__).parent / "relations.toml").read_text(encoding="utf-8"))
    return {name: _relation(name, row) for name, row in table.items()}


def two_hop_question(subject: str, first: str, second: str, possessive: bool = False) -> str:
    """Return a question over both relations, e.g. "Who is the head of state of the country of
    X?".
    """
    hop, last = relations()[first], relations()[second]
    inner = f"{subject}'s {hop.noun}" if possessive else f"the {hop.noun} of {subject}"
    return f"{last.wh} is the {last.noun} of {inner}?"


def _relation(name: str, row: dict[str, list[str] | str]) -> WorldRelation:
    noun, wh = str(row["noun"]), "Who" if row["object"] == "person" else "What"
    texts = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    statements = (f"The {noun} of {{}} is", f"{{}}'s {noun} is")
    questions = (
        f"{wh} is the {noun} of {{}}?",
        f"{wh} is {{}}'s {noun}?",
        f"What is the name of the {noun} of {{}}?",
    )
    texts["statements"] = statements + texts["statements"]
    texts["questions"] = tuple(dict.fromkeys(questions + texts["questions"]))
    return WorldRelation(
        name=name, subject=str(row["subject"]), object=str(row["object"]), noun=noun, **texts
    )


class World:
    """The facts of one invented world; the same seed gives the same world everywhere.

    `names[kind]` are the entities, `facts` all facts, `by_subject` and `by_relation` the two
    indexes, `chains` the two-hop chains and `held` the subjects whose in-context use the training
    corpus withholds.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = random.Random(seed)
        self.names = _draw_names(rng)
        self.objects: dict[tuple[str, str], str] = {}
        self._assign_places(rng)
        self._assign_people(rng)
        self._assign_organisations(rng)
        self.facts = [WorldFact(s, r, o) for (s, r), o in self.objects.items()]
        self.by_subject: dict[str, list[WorldFact]] = defaultdict(list)
        self.by_relation: dict[str, list[WorldFact]] = defaultdict(list)
        for fact in self.facts:
            self.by_subject[fact.subject].append(fact)
            self.by_relation[fact.relation].append(fact)
        chooser = random.Random(seed + 99)
        self.held = frozenset(
            name
            for kind in HELD_KINDS
            for name in chooser.sample(self.names[kind], len(self.names[kind]) // HELD_SHARE)
        )
        self.chains = [
            WorldChain(first, second)
            for first in self.facts
            for second in self.by_subject.get(first.object, [])
            # the chain would lead back to its start
            if not first.relation == second.relation == "spouse"
        ]

    def _assign_places(self, rng: random.Random) -> None:
        countries, cities = self.names["country"], self.names["city"]
        for place, city in enumerate(cities):
            self.objects[city, "located_in"] = countries[place % len(countries)]
        currencies = rng.sample(self.names["currency"], len(countries))
        for country, currency in zip(countries, currencies, strict=True):
            inside = [city for city in cities if self.objects[city, "located_in"] == country]
            self.objects[country, "capital"] = rng.choice(inside)
            self.objects[country, "official_language"] = rng.choice(self.names["language"])
            self.objects[country, "continent"] = rng.choice(self.names["continent"])
            self.objects[country, "head_of_state"] = rng.choice(self.names["person"])
            self.objects[country, "currency"] = currency

    def _assign_people(self, rng: random.Random) -> None:
        """Assign facts of people; citizenship and language mostly follow the birthplace, so that
        the world is not random noise.
        """
        for person in self.names["person"]:
            city = rng.choice(self.names["city"])
            home = self.objects[city, "located_in"]
            local = self.objects[home, "official_language"]
            self.objects[person, "born_in"] = city
            self.objects[person, "citizen_of"] = (
                home if rng.random() < 0.7 else rng.choice(self.names["country"])
            )
            self.objects[person, "speaks"] = (
                local if rng.random() < 0.7 else rng.choice(self.names["language"])
            )
            if rng.random() < 0.45:
                self.objects[person, "plays_for"] = rng.choice(self.names["club"])
            else:
                self.objects[person, "employer"] = rng.choice(self.names["company"])
                self.objects[person, "occupation"] = rng.choice(self.names["occupation"])
        couples = rng.sample(self.names["person"], 180)
        for first, second in zip(couples[::2], couples[1::2], strict=True):
            self.objects[first, "spouse"], self.objects[second, "spouse"] = second, first

    def _assign_organisations(self, rng: random.Random) -> None:
        for club in self.names["club"]:
            named_after = club.rsplit(" ", 1)[0]
            self.objects[club, "coach"] = rng.choice(self.names["person"])
            self.objects[club, "sport"] = rng.choice(self.names["sport"])
            self.objects[club, "home_city"] = (
                named_after if rng.random() < 0.7 else rng.choice(self.names["city"])
            )
        for company in self.names["company"]:
            self.objects[company, "headquarters"] = rng.choice(self.names["city"])
            self.objects[company, "founder"] = rng.choice(self.names["person"])
            self.objects[company, "ceo"] = rng.choice(self.names["person"])
            self.objects[company, "industry"] = rng.choice(self.names["industry"])
        for work in self.names["work"]:
            self.objects[work, "author"] = rng.choice(self.names["person"])
            self.objects[work, "genre"] = rng.choice(self.names["genre"])


def _draw_names(rng: random.Random) -> dict[str, list[str]]:
    used: set[str] = set()

    def fresh(kind: str) -> str:
        while True:
            name = coin(rng, kind)
            if name not in used and len(name) <= 10:
                used.add(name)
                return name

    names = {
        kind: [fresh(kind) for _ in range(COUNTS[kind])]
        for kind in ("continent", "country", "city", "language", "currency", "company")
    }
    first = [fresh("first") for _ in range(70)]
    last = [fresh("last") for _ in range(150)]
    people = [f"{a} {b}" for a, b in product(first, last)]
    clubs = [f"{city} {suffix}" for city, suffix in product(names["city"], CLUB_SUFFIXES)]
    works = [f"The {adjective} {noun}" for adjective, noun in product(ADJECTIVES, NOUNS)]
    names["person"] = rng.sample(people, COUNTS["person"])
    names["club"] = rng.sample(clubs, COUNTS["club"])
    names["work"] = rng.sample(works, COUNTS["work"])
    return names | {kind: words.split() for kind, words in COMMON.items()}


def coin(rng: random.Random, kind: str) -> str:
    """Return a random name of that kind from syllables; collisions with names of the world are
    rare.
    """
    if kind in COMMON:
        return rng.choice(COMMON[kind].split())
    if kind == "person":
        return f"{coin(rng, 'first')} {coin(rng, 'last')}"
    if kind == "club":
        return f"{coin(rng, 'city')} {rng.choice(CLUB_SUFFIXES)}"
    if kind == "work":
        return f"The {rng.choice(ADJECTIVES)} {coin(rng, 'city')}"
    syllables = "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((1, 2, 2))))
    return (syllables + rng.choice(ENDINGS[kind].split())).capitalize()
