"""The walk of `kg_walk` with an oracle that plans and reads without error: what linking and walking alone lose.

    python -m scripts.benchmarks.bench_kg_walk mquake_cf_3k.json

Each row's first question, under the edits of its own case and under those of all rows at once; rows whose chain another
row's edit changes are left out of the second. The oracle plans with Wikidata's labels, and answers a hop by an edit
that it is shown or by the true fact.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from emend.agents.roles.relation_chain import ENTITY, QUESTION, RECALL, RELATIONS, SEPARATOR
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.rows import contaminated_ids
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.text.exact import normalise
from emend.graphs.execution import run_graph
from emend.graphs.kg_walk import KgWalkContext, build
from emend.graphs.walk.relation_similarity import RelationSimilarity
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry, Retriever
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.exact import ExactCorpus

sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests.fakes import ScriptedScoringModel  # noqa: E402

SHOWN = 25
"""Questions that went wrong, of those that are printed."""


def retriever_over(edits: Sequence[Edit]) -> Retriever:
    """BM25 over the texts of edits."""
    entries = [Entry(id=edit.id, edit_id=edit.id, text=edit.text) for edit in edits]
    return BM25(ExactCorpus.of(entries, LexicalEmbedding()))


class Oracle:
    """Replies for the rows: the plan of a question, or the object of a hop."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._plans, self._ids = dict[str, str](), dict[str, str]()
        self._facts, self._edited = dict[tuple[str, str], str](), dict[str, tuple[str, str, str]]()
        for row in rows:
            self._read(row)
        self._relations = sorted(
            {hop[1] for row in rows for hop in row["orig"]["triples_labeled"]}, key=len, reverse=True
        )

    def _read(self, row: Mapping[str, Any]) -> None:
        chain, hops = row["orig"]["triples_labeled"], row["orig"]["new_triples_labeled"]
        self._plans[row["questions"][0]] = f"{chain[0][0]}\n{RELATIONS} {'; '.join(hop[1] for hop in chain)}"
        edited = {tuple(each[:2]) for each in row["orig"]["edit_triples"]}
        for hop, ids in zip(hops, row["orig"]["new_triples"], strict=True):
            self._ids |= {normalise(hop[0]): ids[0], normalise(hop[2]): ids[2]}
            if tuple(ids[:2]) not in edited:
                self._facts.setdefault((ids[0], hop[1]), hop[2])
        for rewrite in row["requested_rewrite"]:
            self._ids[normalise(rewrite["target_new"]["str"])] = rewrite["target_new"]["id"]
        for edit, hop, ids in edits_with_hops(row):
            self._edited[edit.text] = ids[0], hop[1], edit.target_new

    def __call__(self, prompt: str) -> str:
        """The reply to a prompt."""
        question = prompt.rpartition(f"{QUESTION} ")[2].partition("\n")[0]
        if prompt.endswith(ENTITY):
            return self._plans[question]
        entity, label, chain = prompt.rpartition(f"{ENTITY} ")[2].partition(f"\n{RELATIONS} ")
        if label:
            return self._recall(entity, chain.partition("\n")[0].split(f"{SEPARATOR} "))
        hops = ((each, RECALL.format(relation=each, entity="")) for each in self._relations)
        relation, lead = next((hop for hop in hops if question.startswith(hop[1].rstrip("? "))), ("", ""))
        return self._object(question[len(lead.rstrip("? ")) :], relation, prompt)

    def _recall(self, entity: str, relations: Sequence[str]) -> str:
        lines = list[str]()
        for relation in relations:
            entity = self._object(entity, relation)
            lines.append(f"{relation}: {entity}")
        return "\n".join(lines)

    def _object(self, entity: str, relation: str, prompt: str = "") -> str:
        """The object after an edit that the prompt shows, else the true one."""
        entity_id = self._ids.get(normalise(entity), "")
        for text, (subject, edited_relation, target) in self._edited.items():
            if text in prompt and (subject, edited_relation) == (entity_id, relation):
                return target
        return self._facts.get((entity_id, relation), "I do not know.")


def edits_with_hops(row: Mapping[str, Any]) -> Iterator[tuple[Edit, Sequence[str], Sequence[str]]]:
    """The edits of a row, with the labels and the ids of the hops that they change."""
    hops = dict(zip(map(tuple, row["orig"]["new_triples"]), row["orig"]["new_triples_labeled"], strict=True))
    for rewrite, ids in zip(row["requested_rewrite"], row["orig"]["edit_triples"], strict=True):
        target = rewrite["target_new"]["str"]
        triplet = Triplet(subject=rewrite["subject"], relation=rewrite["relation_id"], object=target)
        edit = Edit.from_triplet(triplet, rewrite["prompt"], question=rewrite["question"])
        yield edit, hops.get(tuple(ids), (rewrite["subject"], "", target)), ids


EditsFor = Callable[[Mapping[str, Any]], tuple[Sequence[Edit], Retriever]]


def evaluate(
    rows: Sequence[Mapping[str, Any]], edits_for: EditsFor, similarity: RelationSimilarity | None = None
) -> None:
    """Print accuracy, calls a question, and questions that went wrong."""
    app, oracle = build(), Oracle(rows)
    outcomes, calls, wrong = list[float](), Counter[int](), list[str]()
    for row in rows:
        edits, retriever = edits_for(row)
        model = ScriptedScoringModel(reply=oracle, log_prob=lambda prompt, target: 0.0)
        golds = [row["new_answer"], *row.get("new_answer_alias", ())]
        probe = Probe(kind="multihop", prompt=row["questions"][0], gold=tuple(golds))
        by_id = {edit.id: edit for edit in edits}
        context = KgWalkContext(model, retriever, edits=by_id, similarity=similarity)
        final, _ = run_graph(app, {"probe": probe}, context)
        is_right = normalise(final.get("final", "")) in map(normalise, golds)
        outcomes.append(float(is_right))
        calls[len(model.calls)] += 1
        if not is_right:
            path = " > ".join(str(hop.get("answer")) for hop in final["hops"])
            wrong.append(f"{probe.prompt} {golds[0]} / {path}")
    share = estimate(outcomes, [str(row["case_id"]) for row in rows])
    mean = sum(number * count for number, count in calls.items()) / len(rows)
    print(f"{len(rows)} questions, right {share}, {mean:.2f} calls a question: {dict(sorted(calls.items()))}")
    print("\n".join(f"  {line}" for line in wrong[:SHOWN]))


def main() -> None:
    """Evaluate both scopes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int, help="rows from the first on; default: all")
    parser.add_argument("--embedding", help="sentence encoder that links wordings of relations; default: none")
    arguments = parser.parse_args()
    similarity = RelationSimilarity(load_embedding(arguments.embedding)) if arguments.embedding else None
    rows = json.loads(arguments.file.read_text(encoding="utf-8"))[: arguments.limit]
    own = {row["case_id"]: [edit for edit, *_ in edits_with_hops(row)] for row in rows}
    print("each case's own edits")
    evaluate(rows, lambda row: (own[row["case_id"]], retriever_over(own[row["case_id"]])), similarity)
    typed = TypeAdapter(list[ChainRow]).validate_python(rows)
    contaminated = set(contaminated_ids({row.id: row.orig for row in typed}))
    together = list({edit.id: edit for edits in own.values() for edit in edits}.values())
    retriever = retriever_over(together)
    print(f"all {len(together)} edits at once, {len(contaminated)} contaminated rows left out")
    evaluate([row for row in rows if row["case_id"] not in contaminated], lambda row: (together, retriever), similarity)


if __name__ == "__main__":
    main()
