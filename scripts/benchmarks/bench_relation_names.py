"""Measures whether wordings of one relation get one name, and those of two relations two.

    python scripts/benchmarks/bench_relation_names.py [--mquake FOLDER] [--embedding lexical minilm]

The wordings are those of the invented world (the noun, statements and statements unseen in training of each of its
relations), on which the threshold of similarity was chosen, and MQuAKE's clozes and questions, on which it was not
(FOLDER has `cloze_templates.json` and `question_templates.json`, of the repository princeton-nlp/MQuAKE). Neither
served to write the built-in table. Precision and recall are over pairs of wordings; relations of MQuAKE that have a
wording in common count as one.
"""

import argparse
import itertools
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.memory.embeddings.embed import load_embedding  # noqa: E402
from emend.memory.relations import relation_table  # noqa: E402
from emend.memory.relations.relation_table import RelationTable, canonical_statement  # noqa: E402

Groups = dict[str, list[str]]
THRESHOLDS = (0.65, 0.7, 0.75, 0.8, 0.85)


class PairScore(NamedTuple):
    """Precision and recall over pairs, and the number of wordings."""

    precision: float
    recall: float
    wordings: int


def wording(template: str) -> str:
    """The relation of a template: without subject, question words and articles at its ends."""
    text = re.sub(r"\[X\]|\{\}|'s\b|__|[?,.:]", " ", template)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"^(What|Who|Which|Where|Whom) (is |was |does |did |are )?", "", text)
    text = re.sub(r"^(the|The) (name of the )?", "", text)
    return re.sub(r"( is| is the| of is| of)$", "", text)


def invented() -> Groups:
    relations = tomllib.loads((ROOT / "agents" / "tiny" / "relations.toml").read_text("utf-8"))
    return {
        name: [each["noun"], *map(wording, [*each["statements"], *each["unseen_statements"]])]
        for name, each in relations.items()
    }


def mquake(folder: Path) -> Groups:
    """The wordings by relation; relations that share one are joined."""
    groups: Groups = {}
    for file in ("cloze_templates.json", "question_templates.json"):
        for name, template in json.loads((folder / file).read_text("utf-8")).items():
            groups.setdefault(name, []).append(wording(template))
    joined: list[tuple[str, set[str]]] = []
    for name, wordings in groups.items():
        shared = [each for each in joined if each[1] & set(wordings)]
        joined = [each for each in joined if each not in shared]
        joined.append((name, set(wordings).union(*(each[1] for each in shared))))
    return {name: sorted(wordings) for name, wordings in joined}


def score(groups: Groups, name_of: Callable[[str], str]) -> PairScore:
    items = [(group, name_of(each)) for group, wordings in groups.items() for each in dict.fromkeys(wordings)]
    same, joined, both = 0, 0, 0
    for (group, name), (other, other_name) in itertools.combinations(items, 2):
        same += group == other
        joined += name == other_name
        both += group == other and name == other_name
    return PairScore(both / max(1, joined), both / max(1, same), len(items))


def rules_alone(relation: str) -> str:
    """The canonical form, without a table."""
    triplet = canonical_statement("", relation, "")
    return triplet.relation if triplet else relation


def rows(groups: Groups, embeddings: Iterable[str]) -> Iterable[tuple[str, PairScore]]:
    table = RelationTable.load()
    yield "canonical form alone", score(groups, rules_alone)
    yield "declared wordings", score(groups, lambda each: table.names.get(each.lower(), rules_alone(each)))
    yield "declared, by words", score(groups, table.name_of)
    for name in embeddings:
        similar = replace(table, embedding=load_embedding(name))
        for threshold in THRESHOLDS:
            relation_table.SIMILAR = threshold
            yield f"and {name} {threshold}", score(groups, similar.name_of)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mquake", type=Path)
    parser.add_argument("--embedding", nargs="+", default=["lexical", "minilm"])
    arguments = parser.parse_args()
    sources = {"invented world": invented()}
    if arguments.mquake:
        sources["MQuAKE"] = mquake(arguments.mquake)
    for source, groups in sources.items():
        table = Table(title=f"{source}: {sum(map(len, groups.values()))} wordings of {len(groups)} relations")
        for column in ("names by", "precision", "recall"):
            table.add_column(column, justify="left" if column == "names by" else "right")
        for name, result in rows(groups, arguments.embedding):
            table.add_row(name, f"{result.precision:.3f}", f"{result.recall:.3f}")
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
