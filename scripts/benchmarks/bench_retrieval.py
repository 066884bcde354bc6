"""How often the right entry comes first on the shared data, against what is required; and milliseconds per query.

    python scripts/benchmarks/bench_retrieval.py --strategy default
    python scripts/benchmarks/bench_retrieval.py --speed

The weights of `default` were chosen on odd ids (DocTER, AKEW) and on ELKEN's training events: `even` is the figure on
what no choice was made on. (ELKEN's test events were looked at while features were chosen, both halves alike.) The
first run embeds about 30,000 texts; they are kept in --cache.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from emend.evals.metrics.estimate import estimate
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding
from emend.memory.paths import cache_folder
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import focused
from emend.memory.retrieval.threshold import Sign, calibrate, confidence

SHARED = Path(os.environ.get("EMEND_SHARED") or Path(__file__).resolve().parents[2] / "../shared") / "data"
ENTRIES, QUERIES = 2000, 2000
CHUNK = 1024  # queries embedded at once
Edits = dict[str, list[str]]
"""What each edit says, one text or several, by its id."""


class Asked(NamedTuple):
    """A query, the edit that bears on it ("" for none), and the number by whose parity it belongs to a half."""

    text: str
    edit: str
    number: int


class Task(NamedTuple):
    """One row of the table."""

    name: str
    edits: str
    asked: list[Asked]
    required: float | None = None
    goal: float | None = None


def read(name: str) -> Any:
    """A shared file, without the object that DocTER's rows are wrapped in."""
    found = json.loads((SHARED / name).read_text("utf-8"))
    return found["data"] if isinstance(found, dict) else found


def docter() -> tuple[dict[str, Edits], list[Task]]:
    """Documents; queries, paraphrases with an unrelated sentence in front, and prompts about other subjects."""
    rows, others = read("docter/edit_success_eval.json"), read("docter/locality_eval.json")
    documents = {str(row["id"]): [row["src"]] for row in read("docter/en_doc.json")}
    queries = [Asked(row["query"], str(row["id"]), row["id"]) for row in rows]
    paraphrases = [Asked(text, str(row["id"]), row["id"]) for row in rows for text in row["paraphrase_query"]]
    neighbours = [Asked(text, "", row["id"]) for row in others for text in row["query"]]
    return {"documents": documents}, [
        Task("DocTER query -> document", "documents", queries, 0.990, 0.995),
        Task("DocTER paraphrase -> document", "documents", paraphrases, 0.970, 0.985),
        Task("DocTER neighborhood", "documents", neighbours),
    ]


def akew() -> tuple[dict[str, Edits], list[Task]]:
    """Facts, paragraphs and extracted triplets of the distinct edits of MQuAKE-CF, asked by their questions."""
    kept: dict[tuple[str, ...], tuple[Any, int]] = {}
    for case in read("akew/mquake_cf.json"):
        for row in case["requested_rewrite"]:
            kept.setdefault((row["subject"], row["prompt"], row["target_new"]["str"]), (row, case["case_id"]))
    stores: dict[str, Edits] = {"facts": {}, "paragraphs": {}, "triplets": {}}
    asked = []
    for place, (row, number) in enumerate(kept.values()):
        id_ = str(place)
        stores["facts"][id_], stores["paragraphs"][id_] = [row["fact_new"]], [row["fact_new_uns"]]
        whole = [t for t in row["unsfact_triplets_GPT"] if t.get("subject") and t.get("target") and t.get("prompt")]
        stores["triplets"][id_] = [f"{t['prompt'].replace('{}', t['subject'], 1)} {t['target']}" for t in whole]
        asked.append(Asked(row["question"], id_, number))
    return stores, [
        Task("AKEW question -> structured fact", "facts", asked),
        Task("AKEW question -> paragraph", "paragraphs", asked, 0.990, 1.0),
        Task("AKEW question -> extracted triplets", "triplets", asked, 0.975, 0.99),
    ]


def elken() -> tuple[dict[str, Edits], list[Task]]:
    """Events of the test split, and the questions in scope."""
    rows = read("elken/test.json")
    asked = {
        block: [Asked(q["question"], str(n), n) for n, row in enumerate(rows) for q in row[block]["qas"]]
        for block in ("fact", "tendency")
    }
    return {"events": {str(n): [row["event"]] for n, row in enumerate(rows)}}, [
        Task("ELKEN factual question -> event", "events", asked["fact"], 0.90, 0.95),
        Task("ELKEN tendency question -> event", "events", asked["tendency"], 0.55, 0.65),
    ]


def corpus(edits: Edits, embedding: Embedding) -> Corpus:
    """All texts of a store."""
    told = ((id_, place, text) for id_, texts in edits.items() for place, text in enumerate(texts))
    entries = [Entry(id=f"{id_}.{place}", edit_id=id_, text=text) for id_, place, text in told]
    return ExactCorpus.of(entries, embedding)


def quality(strategy: str, embedding: Embedding, console: Console) -> None:
    """One table of all tasks, then what thresholds let through."""
    table = Table("task", "n", "required", "goal", "odd", "even", "all", "95 %", "ms", title=strategy)
    found: dict[str, list[list[Hit]]] = {}
    tasks: dict[str, Task] = {}
    for load in (docter, akew, elken):
        stores, asking = load()
        over = {name: corpus(edits, embedding) for name, edits in stores.items()}
        retrievers = {name: load_retriever(strategy)(entries) for name, entries in over.items()}
        for task in asking:
            found[task.name], ms = answered(task, over[task.edits], retrievers[task.edits])
            tasks[task.name] = task
            if task.asked[0].edit:
                table.add_row(*cells(task, found[task.name], ms))
    console.print(table)
    console.print(thresholds(tasks, found))


def answered(task: Task, over: Corpus, retriever: Retriever) -> tuple[list[list[Hit]], float]:
    """The first ten hits of each query, and the mean milliseconds of a search once the queries are embedded."""
    found: list[list[Hit]] = []
    seconds = 0.0
    for start in range(0, len(task.asked), CHUNK):
        chunk = task.asked[start : start + CHUNK]
        over.embed([focused(one.text) for one in chunk])  # what `default` asks with; others embed one by one
        began = time.perf_counter()
        found += [retriever.search(one.text, 10) for one in chunk]
        seconds += time.perf_counter() - began
    return found, seconds / len(task.asked) * 1e3


def cells(task: Task, found: Sequence[Sequence[Hit]], ms: float) -> Iterator[str]:
    """A row of the table."""
    right = [bool(hits) and hits[0].entry.edit_id == one.edit for hits, one in zip(found, task.asked, strict=True)]
    whole = estimate([float(one) for one in right], [one.edit for one in task.asked])
    yield from (task.name, str(len(right)), shown(task.required), shown(task.goal))
    for parity in (1, 0):
        half = [hit for hit, one in zip(right, task.asked, strict=True) if one.number % 2 == parity]
        yield shown(sum(half) / len(half))
    yield shown(whole.mean)
    yield f"[{shown(whole.low)}, {shown(whole.high)}]"
    yield f"{ms:.2f}"


def thresholds(tasks: dict[str, Task], found: dict[str, list[list[Hit]]]) -> Table:
    """Neighborhood prompts given an edit at the threshold that keeps 95 % of the odd paraphrases' right hits."""
    table = Table("threshold by", "least", "paraphrase hits kept, even", "neighborhood hit, even", "n", "95 %")
    said, other = "DocTER paraphrase -> document", "DocTER neighborhood"
    signs: tuple[Sign, ...] = ("score", "lead")
    for by in signs:
        kept = [
            (one.number % 2, confidence(hits, by))
            for hits, one in zip(found[said], tasks[said].asked, strict=True)
            if hits and hits[0].entry.edit_id == one.edit
        ]
        least = calibrate([sure for odd, sure in kept if odd])
        even = [sure >= least for odd, sure in kept if not odd]
        pairs = [(h, one) for h, one in zip(found[other], tasks[other].asked, strict=True) if one.number % 2 == 0]
        given = [float(bool(hits) and confidence(hits, by) >= least) for hits, _ in pairs]
        share = estimate(given, [one.number for _, one in pairs])
        table.add_row(
            by, f"{least:.3f}", shown(sum(even) / len(even)), shown(share.mean), str(len(given)),
            f"[{shown(share.low)}, {shown(share.high)}]",
        )  # fmt: skip
    return table


def shown(share: float | None) -> str:
    """Three decimals."""
    return "-" if share is None else f"{share:.3f}"


def speed(console: Console) -> None:
    """Milliseconds per query over 2,000 entries, short and long, under the lexical embedding."""
    draw = random.Random(0)
    words = ["".join(draw.choices("bdfgklmnprstvaeiou", k=draw.randint(3, 9))) for _ in range(8000)]
    table = Table("words per entry", "strategy", "index, s", "query, ms")
    for length in (8, 300):
        texts = [" ".join(draw.choices(words, k=length)).title() for _ in range(ENTRIES)]
        over = corpus({str(n): [text] for n, text in enumerate(texts)}, LexicalEmbedding())
        for name in ("dense", "bm25", "hybrid", "focus", "default"):
            began = time.perf_counter()
            retriever = load_retriever(name)(over)
            built = time.perf_counter() - began
            queries = [" ".join(draw.choices(words, k=12)).title() for _ in range(QUERIES)]
            began = time.perf_counter()
            for query in queries:
                retriever.search(query, 5)
            ms = (time.perf_counter() - began) / QUERIES * 1e3
            table.add_row(str(length), name, f"{built:.2f}", f"{ms:.3f}")
    console.print(table)


def main() -> None:
    """One of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="default")
    parser.add_argument("--embedding", default="auto")
    parser.add_argument("--cache", type=Path, default=cache_folder("vectors"))
    parser.add_argument("--speed", action="store_true")
    told = parser.parse_args()
    console = Console(width=140)
    if told.speed:
        speed(console)
        return
    quality(told.strategy, load_embedding(told.embedding, told.cache), console)


if __name__ == "__main__":
    main()
