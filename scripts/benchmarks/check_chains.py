"""Check a file of MQuAKE: whether its chains can be composed again from its own triples, and which faults they have.

    python -m scripts.benchmarks.check_chains MQuAKE-CF-3k.json

Coverage is the share of rows whose old and new chain, answers and edits follow from the facts of all rows by the rules
of `emend build chains`; the others are counted by the first rule that they break. Faults are those of
`emend.evals.construction.sources.chains`, of which MQuAKE-Remastered (Zhong et al. 2025) reports contamination.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from emend.evals.construction.sources.chain_faults import count_faults
from emend.evals.construction.sources.chains import changes_answer
from emend.evals.construction.sources.fact_graph import Chain
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.facts.fact_graph import FactGraph, FactHop
from emend.evals.metrics.text.exact import normalise

Row = Mapping[str, Any]


def graph_of(rows: Iterable[Row]) -> FactGraph:
    """The facts of all rows before any edit, by the ids of their entities."""
    facts, names = list[FactHop](), dict[str, dict[str, None]]()
    for row in rows:
        edits = {tuple(each) for each in row["orig"]["edit_triples"]}
        for (subject, relation, _), edit in zip(row["orig"]["edit_triples"], row["requested_rewrite"], strict=True):
            facts.append(FactHop(subject, relation, edit["target_true"]["id"]))
            names.setdefault(edit["target_true"]["id"], {})[edit["target_true"]["str"]] = None
        for triples, hops in (("triples", "single_hops"), ("new_triples", "new_single_hops")):
            chain = [FactHop(*each) for each in row["orig"][triples]]
            facts += [hop for hop in chain if hop not in edits]
            for hop, text in zip(chain, row[hops], strict=True):
                aliases = dict.fromkeys([text["answer"], *text.get("answer_alias", ())])
                names.setdefault(hop.object, {}).update(aliases)
    return FactGraph(facts, {entity: tuple(each) for entity, each in names.items()})


def broken_rule(row: Row, graph: FactGraph) -> str:
    """The first rule of composition that a row breaks; empty if it can be composed again."""
    old, new = (tuple(FactHop(*each) for each in row["orig"][name]) for name in ("triples", "new_triples"))
    edits = [FactHop(*each) for each in row["orig"]["edit_triples"]]
    relations = [hop.relation for hop in old]
    chain = Chain(old, new, tuple(place for place, hop in enumerate(new) if hop in edits))
    rules = {
        "a fact is missing, or has several objects in the rows": all(map(graph.object_of, *_keys(old, new))),
        "the old chain is another one": graph.follow(old[0].subject, relations) == old,
        "the new chain is another one": graph.follow(old[0].subject, relations, edits) == new,
        "the chain comes back to an entity": all(map(_has_different_entities, (old, new))),
        "an answer is not that of the last hop": _ends_with_answers(row, graph, chain),
        "the answers share a name, or follow without one of the edits too": changes_answer(graph, chain),
    }
    return next((name for name, holds in rules.items() if not holds), "")


def _has_different_entities(chain: Sequence[FactHop]) -> bool:
    return len({chain[0].subject, *(hop.object for hop in chain)}) > len(chain)


def draws_known_objects(row: Row, graph: FactGraph) -> bool:
    """True if each new object is the object of another fact of its relation, and thus one that Emend would draw."""
    return all(target in graph.choices(relation) for _, relation, target in row["orig"]["edit_triples"])


def _keys(*chains: Sequence[FactHop]) -> tuple[list[str], list[str]]:
    hops = [hop for chain in chains for hop in chain]
    return [hop.subject for hop in hops], [hop.relation for hop in hops]


def _ends_with_answers(row: Row, graph: FactGraph, chain: Chain) -> bool:
    ends = (row["answer"], chain.old), (row["new_answer"], chain.new)
    return all(normalise(answer) in map(normalise, graph.names(hops[-1].object)) for answer, hops in ends)


def check(file: Path) -> dict[str, Any]:
    """Coverage with the rules that are broken, faults and numbers of hops and edits of a file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    graph, rows = graph_of(content), TypeAdapter(list[ChainRow]).validate_python(content)
    again = {row["case_id"]: broken_rule(row, graph) for row in content}
    broken = Counter(again.values())
    cells = Counter(f"{row.hops}/{len(row.requested_rewrite)}" for row in rows)
    own = sum(not again[row["case_id"]] and draws_known_objects(row, graph) for row in content)
    return {
        "rows": len(rows),
        "facts": len(graph),
        "facts with several objects": graph.ambiguous,
        "composed again": broken.pop("", 0),
        "of these, with new objects of other facts": own,
        "rules broken": dict(broken.most_common()),
        "faults": {name: len(faulty) for name, faulty in count_faults(rows)},
        "rows by hops and edits": dict(sorted(cells.items())),
    }


def main() -> None:
    """Print the checks of a file as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    print(json.dumps(check(parser.parse_args().file), indent=1))


if __name__ == "__main__":
    main()
