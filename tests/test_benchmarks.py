"""Every bench gets to its end, on inputs that are small enough: what it measures is no test's."""

import io
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from emend.agents.llm import load_model
from emend.evals.case import Metric
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.metrics.protocols import metrics_under
from emend.evals.results.aggregate.rows import report
from scripts.benchmarks import fact_files
from scripts.benchmarks.bench_graphs import ALONE, batching, bound_of, hops, latency, steps, tables
from scripts.benchmarks.bench_likelihood import WAYS, blocks, locality, measure, show
from scripts.benchmarks.bench_real_models import PROTOCOLS, table
from tests.evals.made import record, write_run
from tests.paths import DATA, ROOT, SHARED

FOLDER = ROOT / "scripts" / "benchmarks"
SMALL = {
    "api": ("--limit 1 --rounds 1 --loops 0", "of the CPU time"),
    "conversations": (
        f"{DATA / 'locomo' / 'locomo10.json'} --budget 50 --embedding lexical --system grep retrieval=default",
        "| `retrieval=default` |",
    ),
    "conversation_weights": (f"--data {DATA / 'locomo'} --embedding lexical", "| all | 15 |"),
    "documents": (
        f"measure --model tiny --data {SHARED / 'data' / 'akew' / 'mquake_cf.json'} --documents 1 "
        "--editors unedited,ft",
        '"editor": "ft", "n": 1',
    ),
    "editors": ("--edits 1 --texts 20", "MEMIT(1): plain"),
    "evolving": ("--pairs 2 --unrelated 2 --embedding lexical", "history 2/2  withdrawn 2/2"),
    "finetune": ("memory --size tiny", "bytes a parameter at the most"),
    "ft_differences": ("--deviations 1", "none: "),
    "generation": ("--requests 6 --seconds 0 --longest 12 --rounds 1", "continuous"),
    "graphs": ("latency steps --calls 80 --questions 40 --at-once 4 --seconds 0.01", "CPU ms/step"),
    "kg_walk": (f"{SHARED / 'data' / 'mquake' / 'mquake_cf_3k.sample.json'} --limit 20", "20 questions, right"),
    "multi_hop": (
        f"{SHARED / 'data' / 'mquake' / 'mquake_cf_3k.sample.json'} --model tiny --limit 1 --editor kg_walk "
        "--editor rag --embedding lexical --out answers.jsonl",
        "1 questions that all editors were asked",
    ),
    "large": (
        "--width 64 --inner 160 --layers 8 --heads 4 --vocabulary 1000 --device cpu --dtype float32 --edits 4 "
        "--texts 20",
        "memit, layers [4, 5, 6, 7], write, 4 edits",
    ),
    "libraries": (f"--data {DATA / 'docter'} --limit 5", "llama_index"),
    "low_rank": ("--outputs 64 --inputs 96 --rounds 1", "weights that differ: 0.00%"),
    "million": ("--records 8000", "resume"),
    "memory_operations": ("--facts 500 --rounds 5", "as of, one subject"),
    "memory": ("--sizes 400 --places folder --embedding lexical", "400"),
    "relation_names": ("--embedding lexical", "declared, by words"),
    "retrieval": ("--strategy bm25 --embedding lexical", "neighborhood hit"),
    "steps": (
        f"{SHARED / 'data' / 'mquake' / 'mquake_cf_3k.sample.json'} --model tiny --limit 1 --own 1 --editor kg_walk "
        "--out steps.jsonl",
        "kg_walk: 3 questions",
    ),
    "rome_differences": (
        f"--model tiny --data {DATA / 'counterfact' / 'counterfact-edit.json'} --facts 1 --contexts [[5,1]]",
        "facts 1, ",
    ),
    "run": ("--probes 20 --edits 4", "EM 100.0"),
    "streams": ("--turns 40 --seeds 1 --systems grep oracle empty", "empty less grep"),
    "sequence": ("--edits 2 --methods rome", "rome"),
    "workers": ("wait --workers threads --units 16 --concurrency 4 --rounds 1", "of ideal"),
    "view": ("--records 8000", "the server's memory"),
    "wikidata_dump": ("--sizes 2000 --workers 1", "precision 1.0000  recall 1.0000"),
    "served": (f"--data {DATA / 'docter'} --limit 1 --pairs 40", "lists of 32"),
}
"""Arguments, and what stands in what a bench prints when it has got to its end."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_bench_gets_to_its_end(name: str, tmp_path: Path) -> None:
    if name in ("documents", "kg_walk", "multi_hop", "retrieval") and not (SHARED / "data").is_dir():
        pytest.skip(f"{SHARED / 'data'} is absent: bench_{name}.py measures on real data")
    result, sign = SMALL[name]
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"bench_{name}.py"), *result.split()],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=os.environ | {"EMEND_CACHE": str(tmp_path), "COLUMNS": "160"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert sign in done.stdout


def test_no_bench_is_forgotten() -> None:
    there = {file.stem.removeprefix("bench_") for file in FOLDER.glob("bench_*.py")}
    assert there == SMALL.keys() | {"likelihood", "scope", "real_models"}  # tested by their functions


def test_the_matrix_of_real_models_shows_each_figure_under_three_protocols(tmp_path: Path) -> None:
    metrics = metrics_under([Metric(name="ES", value="success", kinds=("efficacy",), scale=100)], PROTOCOLS)
    values = {"success": 1.0, "em": 0.0, "contains": 1.0}
    answers = ["Rome Rome Rome Rome", "Rome, Rome's capital", "Rome", "in Rome"]
    records = [record(str(n), "ft", values=values, form="plain", answer=answer) for n, answer in enumerate(answers)]
    folder = write_run(tmp_path / "run", records, metrics=metrics)
    lines = table([(folder, report(folder))])
    assert lines[0].startswith("| editor | efficacy (likelihood / exact / contains) | loops |")
    assert lines[2].startswith("| `ft` | 100 [51, 100] / 0 [0, 49] / 100 [51, 100] | 25 |")


def test_the_bound_is_the_schedule_in_which_only_latency_takes_time():
    assert bound_of([3, 4, 5], 0.2, 64) == pytest.approx(1.0)
    assert bound_of([3, 4, 5], 0.2, 1) == pytest.approx(2.4)
    assert bound_of([3, 4, 5, 3], 0.2, 2) == pytest.approx(1.6)  # 3 and 5; 4 and 3, one call earlier


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rag", "mello", ALONE, f"{ALONE}, 2 x"])
def test_calls_through_a_provider_are_all_made_and_take_no_less_than_the_bound(name, tmp_path):
    late = latency(tmp_path / "run", name, 48, 6, 0.05)
    assert late.served.requests == 48 and 2 <= late.served.at_once <= 6
    assert late.elapsed > late.even and late.cpu > 0 and late.served.cpu > 0 and late.peak_mb > 1
    assert late.bound > 0.99 * late.even and f"{late.elapsed / late.bound:.2f}" in shown([late], None, None)


@pytest.mark.slow
def test_steps_are_those_of_the_graph_and_retrieval_is_told_apart(tmp_path):
    cost = steps(tmp_path / "run", 30)
    assert cost.steps == sum(2 * (2 + n % 3) + 3 for n in range(30))
    assert 0 < cost.least <= cost.middle and cost.retrieval > 0
    assert f"{cost.middle:.2f}" in shown([], cost, None)


@pytest.mark.slow
def test_answers_are_the_same_one_after_another_and_all_at_once(tmp_path):
    model = load_model("tiny")
    probes, edits = hops(2)
    result = batching(model, probes, edits, tmp_path)
    assert result.questions == 2 and result.calls >= 2 * 5 and result.same
    text = shown([], None, result)
    assert "same answers: yes" in text and f"{result.alone[1] / result.together[1]:.2f}" in text


def shown(*found):
    file = io.StringIO()
    console = Console(file=file, width=160)
    for measured in tables(*found):
        console.print(measured)
    return file.getvalue()


RECORDS = [
    {"id": n, "query": [f"The capital of {name} is", f"Karo Benn, born in {name}, lives in"],
     "original_target": "Paris", "altered_target": "Rome and Paris"}
    for n, name in enumerate(("France", "Italy", "China"))
]  # fmt: skip


@pytest.mark.slow
def test_the_ways_agree_and_the_table_has_their_ratios(random_lm):
    pairs = list(locality(RECORDS, {0: "The Silent River. "}))
    assert pairs[0][0] == ("The Silent River. The capital of France is", "Paris")
    assert [len(block) for block in blocks(pairs, 2)] == [8, 4]
    measured = measure(random_lm(), blocks(pairs, 2))
    assert measured.pairs == 12 and measured.differ < 1e-4
    file = io.StringIO()
    Console(file=file, width=120).print(show("a few", measured))
    assert all(name in file.getvalue() for name in WAYS) and "1.00" in file.getvalue()


def test_files_made_of_published_rows_are_read_by_their_benchmarks(tmp_path: Path) -> None:
    if not (SHARED / "data").is_dir():
        pytest.skip(f"{SHARED / 'data'} is absent")
    data = SHARED / "data"
    edits = list(fact_files.read_edits(data / "mquake" / "mquake_cf_3k.edits.json"))[:3]
    (tmp_path / "counterfact_easyedit_1k.json").write_text(json.dumps(edits))
    (tmp_path / "documents.jsonl").write_text(
        "".join(
            json.dumps(row) + "\n" for row in islice(fact_files.read_documents(data / "akew" / "mquake_cf.json"), 2)
        )
    )
    flat, _ = load_benchmark("counterfact", str(tmp_path), {"dataset": "flat"}, ())
    documents, (setting, *_) = load_benchmark(str(tmp_path / "documents.jsonl"), None, {}, ())
    assert [case.edits[0].subject for case in flat.cases("triplet")] == [row["subject"] for row in edits]
    kinds = {probe.kind for case in documents.cases(setting) for probe in case.probes}
    assert {"long_answer", "sub_question", "locality"} <= kinds
