"""Every bench gets to its end, on inputs that are small enough: what it measures is no test's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import SHARED

FOLDER = Path(__file__).parent / "benchmarks"
SMALL = {
    "editors": ("--edits 1 --texts 20", "MEMIT(1): plain"),
    "evolving": ("--pairs 2 --unrelated 2 --embedding lexical", "history 2/2  withdrawn 2/2"),
    "graphs": ("latency steps --questions 40 --at-once 4 --seconds 0.01", "CPU ms/step"),
    "large": (
        "--width 64 --inner 160 --layers 8 --heads 4 --vocabulary 1000 --device cpu --dtype float32 --edits 4 "
        "--texts 20",
        "memit, layers [4, 5, 6, 7], write, 4 edits",
    ),
    "memory": ("--sizes 400 --places folder --embedding lexical", "400"),
    "retrieval": ("--strategy bm25 --embedding lexical", "neighborhood hit"),
    "run": ("--probes 20 --edits 4", "EM 100.0"),
    "sequence": ("--edits 2 --methods rome", "rome"),
}
"""Arguments, and what stands in what a bench prints when it has got to its end."""
WITHOUT = {
    "analyse": "measures 10,000 records, as many as its promise names",
    "likelihood": "tests/test_bench_likelihood.py",
    "loading": "fails where a file takes longer than it may",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_bench_gets_to_its_end(name: str, tmp_path: Path) -> None:
    if name == "retrieval" and not (SHARED / "data").is_dir():
        pytest.skip(f"{SHARED / 'data'} is absent: bench_retrieval.py measures on real data")
    told, sign = SMALL[name]
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"bench_{name}.py"), *told.split()],
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
    assert there == SMALL.keys() | WITHOUT.keys()
