"""The bench of the likelihood engine works: on a few pairs its ways agree, and its table shows them all."""

import io

from rich.console import Console

from tests.benchmarks.bench_likelihood import WAYS, blocks, locality, measure, show

RECORDS = [
    {"id": n, "query": [f"The capital of {name} is", f"Karo Benn, born in {name}, lives in"],
     "original_target": "Paris", "altered_target": "Rome and Paris"}
    for n, name in enumerate(("France", "Italy", "China"))
]  # fmt: skip


def test_the_ways_agree_and_the_table_has_their_ratios(random_lm):
    pairs = list(locality(RECORDS, {0: "The Silent River. "}))
    assert pairs[0][0] == ("The Silent River. The capital of France is", "Paris")
    assert [len(block) for block in blocks(pairs, 2)] == [8, 4]
    found = measure(random_lm(), blocks(pairs, 2))
    assert found.pairs == 12 and found.differ < 1e-4
    file = io.StringIO()
    Console(file=file, width=120).print(show("a few", found))
    assert all(name in file.getvalue() for name in WAYS) and "1.00" in file.getvalue()
