"""Milliseconds per query of each retriever over 2,000 entries, short and long; run it as a script."""

import random
import time

from emend.memory.chroma import ChromaMemory
from emend.memory.edit import Edit
from emend.memory.embed import LexicalEmbedding
from emend.memory.retrieval.registry import RETRIEVERS

ENTRIES, QUERIES = 2000, 2000


def main() -> None:
    draw = random.Random(0)
    names = ["".join(draw.choices("bdfgklmnprstvaeiou", k=draw.randint(3, 9))) for _ in range(8000)]
    for length in (8, 300):
        texts = [" ".join(draw.choices(names, k=length)) for _ in range(ENTRIES)]
        with ChromaMemory(None, LexicalEmbedding()) as memory:
            memory.add([Edit(form="document", text=text) for text in texts])
            start = time.perf_counter()
            view = memory.view()
            print(f"{length} words: view of {len(view.entries())} in {time.perf_counter() - start:.2f} s")
            for name in RETRIEVERS.names():
                retriever = RETRIEVERS.load(name)(view)
                queries = [" ".join(draw.choices(names, k=12)) for _ in range(QUERIES)]
                start = time.perf_counter()
                for query in queries:
                    retriever.search(query, 5)
                print(f"  {name}: {(time.perf_counter() - start) / QUERIES * 1e3:.3f} ms per query")


if __name__ == "__main__":
    main()
