"""Chains as files: items to be worded by an author, and rows in the form of MQuAKE."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.evals.build.chains.fact_graph import Chain, FactGraph, FactHop
from emend.evals.build.chains.templates import TemplateBook, fill
from emend.evals.build.source_items import KeptItem
from emend.evals.data.benchmarks.built import BenchmarkFiles
from emend.memory.files import replace_file

FILE = "MQuAKE-CF.json"
LIMITS = (
    "An entity is known by its name: two entities of one name in the table are taken for one.",
    "Edits take an object of the same relation; whether a reader would believe them is not checked.",
    "Whether a question that a model worded anew asks the same is for a judge, and for people with --review.",
)


def chain_item(chain: Chain, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    """A chain as an item: its composed question, the name of its start, the other names, and its row."""
    start = graph.label(chain.start)
    others = {hop.object: None for hop in (*chain.old, *chain.new) if hop.object != chain.start}
    question = book.question(start, chain.relations)
    hidden = [name for each in others for name in graph.names(each)]
    return {"text": question, "start": start, "hidden": hidden, "row": chain_row(chain, graph, book)}


def chain_row(chain: Chain, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    """A row of MQuAKE's files without number and questions."""
    old, new = chain.old[-1].object, chain.new[-1].object
    return {
        "requested_rewrite": [_rewrite(edit, graph, book) for edit in chain.edits],
        "answer": graph.label(old),
        "answer_alias": list(graph.names(old)[1:]),
        "new_answer": graph.label(new),
        "new_answer_alias": list(graph.names(new)[1:]),
        "single_hops": [_hop(hop, graph, book) for hop in chain.old],
        "new_single_hops": [_hop(hop, graph, book) for hop in chain.new],
        "orig": {
            "triples": chain.old,
            "triples_labeled": [_labels(hop, graph) for hop in chain.old],
            "new_triples": chain.new,
            "new_triples_labeled": [_labels(hop, graph) for hop in chain.new],
            "edit_triples": chain.edits,
        },
    }


def _rewrite(edit: FactHop, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    templates, subject = book.templates(edit.relation), graph.label(edit.subject)
    true = str(graph.object_of(edit.subject, edit.relation))
    return {
        "prompt": templates.cloze,
        "relation_id": edit.relation,
        "target_new": {"str": graph.label(edit.object), "id": edit.object},
        "target_true": {"str": graph.label(true), "id": true},
        "subject": subject,
        "question": fill(templates.question, subject),
    }


def _hop(hop: FactHop, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    templates, subject = book.templates(hop.relation), graph.label(hop.subject)
    answer, *aliases = graph.names(hop.object)
    texts = {"question": fill(templates.question, subject), "cloze": fill(templates.cloze, subject)}
    return {**texts, "answer": answer, "answer_alias": aliases}


def _labels(hop: FactHop, graph: FactGraph) -> list[str]:
    return [graph.label(hop.subject), hop.relation, graph.label(hop.object)]


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write the rows in the form of MQuAKE-CF.json."""
    rows = [
        {"case_id": number, "questions": item.result["questions"], **item.fields["row"]}
        for number, item in enumerate(items, 1)
    ]
    replace_file(folder / FILE, (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode())
    return BenchmarkFiles(benchmark="mquake", options={"dataset": "CF"}, files=(FILE,))


def worded_questions(item: KeptItem) -> str:
    """The questions of a chain."""
    return "\n".join(item.result["questions"])
