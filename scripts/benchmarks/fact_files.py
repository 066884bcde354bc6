"""Files made of published benchmarks' rows, for runs that those alone do not give.

    python scripts/benchmarks/fact_files.py documents AKEW/mquake_cf.json --rows 50 > documents.jsonl
    python scripts/benchmarks/fact_files.py sequence FLAT.json mquake_cf_3k.edits.json > 1k/FLAT.json

`documents`: AKEW's unstructured texts in UnKEBench's manner, the shortest first: the text answers the question of its
fact, its cloze asks for a part of it, and another text's fact must stay. `sequence`: CounterFact's flat rows
(counterfact_easyedit_1k.json), then MQuAKE's edits of other subjects in the same form, whose question is the
paraphrase, with another subject's fact of the same relation as the neighbour.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_documents(path: Path) -> Iterator[Row]:
    """A row for each case's first rewrite, the shortest text first."""
    rewrites = [case["requested_rewrite"][0] for case in json.loads(path.read_text(encoding="utf-8"))]
    texts = {rewrite["fact_new_uns"]: rewrite for rewrite in rewrites}
    rewrites = sorted(texts.values(), key=lambda rewrite: len(rewrite["fact_new_uns"]))
    for place, rewrite in enumerate(rewrites):
        other = rewrites[place - 1]
        cloze = rewrite["prompt"].replace("{}", rewrite["subject"])
        yield {
            "document": rewrite["fact_new_uns"],
            "question": rewrite["question"],
            "answer": rewrite["fact_new_uns"],
            "sub_questions": [{"question": cloze, "answer": rewrite["target_new"]["str"]}],
            "locality": [{"question": other["question"], "answer": other["target_true"]["str"]}],
        }


def read_flat(path: Path) -> Iterator[Row]:
    """CounterFact's flat rows as they are."""
    yield from json.loads(path.read_text(encoding="utf-8"))


def read_edits(path: Path) -> Iterator[Row]:
    """The first edit of each of MQuAKE's subjects in the flat form, with a neighbour of the same relation."""
    edits = list({edit["subject"]: edit for edit in json.loads(path.read_text(encoding="utf-8"))}.values())
    alike = defaultdict(list)
    for edit in edits:
        alike[edit["relation_id"]].append(edit)
    for number, edit in enumerate(edits):
        others = alike[edit["relation_id"]]
        near = others[others.index(edit) - 1]
        if near is not edit:
            yield {
                "case_id": 100_000 + number,
                "prompt": edit["prompt"].replace("{}", edit["subject"]),
                "target_new": edit["target_new"]["str"],
                "subject": edit["subject"],
                "ground_truth": edit["target_true"]["str"],
                "rephrase_prompt": edit["question"],
                "locality_prompt": near["prompt"].replace("{}", near["subject"]),
                "locality_ground_truth": near["target_true"]["str"],
            }


def distinct(rows: Iterator[Row]) -> Iterator[Row]:
    """The first row of each subject, so that no edit undoes another."""
    subjects: set[str] = set()
    for row in rows:
        if row["subject"] not in subjects:
            subjects.add(row["subject"])
            yield row


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("documents", "sequence"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=1000)
    chosen = parser.parse_args()
    if chosen.kind == "documents":
        for row in islice(read_documents(*chosen.files), chosen.rows):
            print(json.dumps(row, ensure_ascii=False))
    else:
        flat, edits = chosen.files
        rows = islice(distinct(chain(read_flat(flat), read_edits(edits))), chosen.rows)
        print(json.dumps(list(rows), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
