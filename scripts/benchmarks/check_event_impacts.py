"""Compare ELKEN's released answers with those that the shipped impacts of event types give.

    python -m scripts.benchmarks.check_event_impacts test.json train.json

An impact says that a relation's new object is unknown, named by the event, or found by a further fact. The same is read
off each released question: its answer is unknown, stands in the event's text, or does not.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.evals.construction.sources.elken import UNKNOWN, EventImpact, EventType, read_event_types
from emend.graphs.construction.filters.name_forms import names

RELATIONS = {
    "P19": "place of birth", "P20": "place of death", "P22": "father", "P25": "mother", "P26": "spouse",
    "P27": "country of citizenship", "P35": "head of state", "P39": "position held", "P50": "author",
    "P54": "member of sports team", "P69": "educated at", "P108": "employer", "P112": "founded by",
    "P118": "league or competition", "P123": "publisher", "P136": "genre", "P159": "headquarters location",
    "P169": "chief executive officer", "P286": "coach of sports team", "P291": "place of publication",
    "P414": "stock exchange", "P495": "country of origin", "P551": "residence", "P570": "date of death",
    "P571": "inception", "P577": "publication date", "P749": "parent organisation", "P937": "work location",
    "close-time": "date of closing", "ex": "former spouse", "ipo-time": "date of listing",
    "jersey-number": "jersey number", "major": "field of study", "previous-ceo": "previous chief executive officer",
    "previous-head-of-state": "previous head of state", "price-per-share": "price of a share at listing",
    "stock-code": "ticker symbol",
}  # fmt: skip
"""Names of the released relations in the shipped types, by their ids."""


def kind_of_impact(event_type: EventType, impact: EventImpact) -> str:
    """How the object of an impact is known: `unknown`, `named` or `looked up`."""
    if impact.object == UNKNOWN:
        return UNKNOWN
    return "named" if impact.object in event_type.named_roles else "looked up"


def kind_of_answer(event: str, answer: Mapping[str, Any]) -> str:
    """The same of a released answer."""
    forms = [str(answer.get("name") or ""), *answer.get("alias", ())]
    if UNKNOWN in map(str.lower, forms):
        return UNKNOWN
    return "named" if any(names(event, form) for form in forms if form) else "looked up"


def compare(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, set[str], str]]:
    """Type, relation, kinds of the impacts (none where there is no impact) and kind of the answer of each question."""
    types = read_event_types()
    for row in rows:
        if row["event_type"] not in types:  # a topic: what the event makes likely
            continue
        event_type = types[row["event_type"]]
        for question in row["fact"]["qas"]:
            relation = RELATIONS.get(str(question.get("rel_id")), str(question.get("rel_id")))
            kinds = {kind_of_impact(event_type, each) for each in event_type.impacts if each.relation == relation}
            yield row["event_type"], relation, kinds, kind_of_answer(row["event"], question["answer"])


def main() -> None:
    """Print how many released questions have an impact, how many of these agree, and which most often do not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    rows = [row for file in parser.parse_args().files for row in json.loads(file.read_text(encoding="utf-8"))]
    compared = list(compare(rows))
    covered = [each for each in compared if each[2]]
    agreed = sum(answer in kinds for _, _, kinds, answer in covered)
    print(f"{len(covered)} of {len(compared)} questions have an impact, {agreed} of these agree")
    apart = Counter(
        (name, relation, *sorted(kinds), answer) for name, relation, kinds, answer in covered if answer not in kinds
    )
    for (name, relation, *kinds), count in apart.most_common(15):
        print(f"{count:4} {name}, {relation}: impact {' or '.join(kinds[:-1])}, answer {kinds[-1]}")
    for (name, relation), count in Counter((each[0], each[1]) for each in compared if not each[2]).most_common(10):
        print(f"{count:4} {name}, {relation}: no impact")


if __name__ == "__main__":
    main()
