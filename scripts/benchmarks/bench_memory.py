"""Measures the memory at 1,000 to 100,000 triplet sentences: building, searching, recall of the index, disk, memory.

    python scripts/benchmarks/bench_memory.py [--sizes 1000,10000,100000] [--places folder,server] [--embedding minilm]
    python scripts/benchmarks/bench_memory.py --sizes 1000000 --vectors given.npy

The sentences are made from 40 templates and invented names; queries ask for 300 of them in other words. The lexical
embedding (384 dimensions, as many as MiniLM's) is used unless another is named, or vectors are given: a `.npy` of
float32 rows, row i for sentence i and the last 300 for the queries. Each line is measured in a process of its own.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import emend.memory.store.chroma as store
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, Vectors, load_embedding
from emend.memory.retrieval.base import Corpus
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.rows import make_entries

QUERIES = 300
K = 10
NOUNS = (
    "mayor capital founder director author composer owner coach editor architect heir patron rival teacher "
    "student spouse birthplace employer publisher producer language currency anthem emblem river port airport "
    "museum stadium orchestra newspaper university cathedral theatre market railway harbour festival harvest dialect"
).split()
STARTS = (
    "ba be bo da do fa fe ga go ha ka ke ko la le lo ma me mo na ne no pa po ra re ro sa se so ta te to va vo".split()
)
ENDS = "lan dor mir ven tis gar lem nor sel bruk stad rin fal tor wen".split()


def edits_of(count: int) -> list[Edit]:
    """Distinct facts about invented places and persons, the same every time."""
    draw, seen = random.Random(0), set()
    out: list[Edit] = []
    while len(out) < count:
        subject, noun = name_of(draw), NOUNS[draw.randrange(len(NOUNS))]
        if (subject, noun) not in seen:
            seen.add((subject, noun))
            told = Triplet(subject=subject, relation=noun, object=name_of(draw))
            out.append(Edit.from_triplet(told, f"The {noun} of {{}} is"))
    return out


def name_of(draw: random.Random) -> str:
    """Two invented words."""
    parts = ("".join(draw.choices(STARTS, k=draw.choice((1, 2)))) + draw.choice(ENDS) for _ in range(2))
    return " ".join(part.capitalize() for part in parts)


def questions_of(edits: Sequence[Edit]) -> list[str]:
    """Some of the facts, asked for in other words."""
    asked = random.Random(1).sample(range(len(edits)), QUERIES)
    return [f"Tell me, what is {edits[i].subject}'s {edits[i].triplets[0].relation}?" for i in asked]


class Given:
    """Vectors by text: computed before, so that none is computed while the memory is timed."""

    def __init__(self, identity: str, documents: dict[str, Vectors], queries: dict[str, Vectors]) -> None:
        self.identity = identity
        self._documents, self._queries = documents, queries

    def documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._documents[text] for text in texts])

    def queries(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._queries[text] for text in texts])


def vectors_of(edits: Sequence[Edit], asked: Sequence[str], spec: str, file: str | None) -> tuple[Embedding, Vectors]:
    """The embedding with all vectors at hand, and those of the sentences."""
    texts = [edit.text for edit in edits]
    if file:
        rows = np.load(file, mmap_mode="r")[: len(texts)]
        asked_rows, identity = np.load(file, mmap_mode="r")[-len(asked) :], f"given/{Path(file).name}"
    else:
        encoder = LexicalEmbedding(384) if spec == "lexical" else load_embedding(spec)
        rows, asked_rows, identity = encoder.documents(texts), encoder.queries(asked), encoder.identity
    documents, queries = dict(zip(texts, rows, strict=True)), dict(zip(asked, asked_rows, strict=True))
    return Given(identity, documents, queries), np.asarray(rows)


def measure(size: int, place: str, spec: str, file: str | None) -> dict[str, object]:
    """One line of the table."""
    edits = edits_of(size)
    asked = questions_of(edits)
    began = time.perf_counter()
    embedding, rows = vectors_of(edits, asked, spec, file)
    embedded = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder, _place(place, Path(folder)) as (where, pid):
        with ChromaMemory(where, embedding) as memory:
            began = time.perf_counter()
            memory.add(edits)
            built = time.perf_counter() - began
            store.EXACT_LIMIT = -1
            view = memory.view()
            times, busy, recall = _search(view, asked, edits, rows, embedding)
            disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            told: dict[str, object] = {"entries": size, "place": place, "embedding": embedding.identity}
            told |= {"embed s": round(embedded, 1), "build s": round(built, 1), "recall@10": round(recall, 4)}
            told |= {"CPU p50 ms": round(busy, 2)} if place == "folder" else {}
            told |= {"p50 ms": round(statistics.median(times), 2), "p99 ms": round(times[int(0.99 * len(times))], 2)}
            return told | {"disk MB": disk // 2**20, "RSS MB": _resident(pid), "load": round(os.getloadavg()[0], 1)}


def _search(
    view: Corpus, asked: Sequence[str], edits: Sequence[Edit], rows: Vectors, embedding: Embedding
) -> tuple[list[float], float, float]:
    """Milliseconds of each search, in order of size; processor's milliseconds of the median one; recall.

    Recall is the share of the true ten nearest that was found. On a machine that others use, the processor's time says
    what the clock would on a free one.
    """
    exact = ExactCorpus([entry for edit in edits for entry in make_entries(edit)], rows, QueryVectors(embedding))
    view.embed(asked)
    view.nearest(asked[0], K)
    times, busy, found = [], [], 0
    for query in asked:
        began, worked = time.perf_counter(), time.process_time()
        hits = view.nearest(query, K)
        times.append((time.perf_counter() - began) * 1e3)
        busy.append((time.process_time() - worked) * 1e3)
        # Of entries that are equally near to the query any is right.
        floor = exact.nearest(query, K)[-1].score - 1e-5
        found += sum(hit.score >= floor for hit in hits)
    return sorted(times), statistics.median(busy), found / (K * len(asked))


@contextmanager
def _place(place: str, folder: Path) -> Iterator[tuple[str, int]]:
    """What the memory is opened with, and the process that holds it."""
    if place == "folder":
        yield str(folder), os.getpid()
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder, "--port", str(port)]
    told = [*map(str, command), "--host", "127.0.0.1"]
    server = subprocess.Popen(told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/heartbeat", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", server.pid
    finally:
        server.terminate()
        server.wait(10)


def _resident(pid: int) -> int:
    """Megabytes of main memory that a process has now; with a folder it is this one, the vectors at hand included."""
    told = Path(f"/proc/{pid}/status").read_text()
    return int(told.partition("VmRSS:")[2].split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--places", default="folder,server")
    parser.add_argument("--embedding", default="lexical")
    parser.add_argument("--vectors")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(int(asked.sizes), asked.places, asked.embedding, asked.vectors)))
        return
    for place in asked.places.split(","):
        for size in asked.sizes.split(","):
            words = f"--one --sizes {size} --places {place} --embedding {asked.embedding}".split()
            words += ["--vectors", asked.vectors] if asked.vectors else []
            done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
