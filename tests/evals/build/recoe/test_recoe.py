"""From a table of facts to ReCoE's files, and a run on them."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from emend.evals.build.build import build
from emend.evals.build.foresee import foresee
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.results.aggregate.rows import report
from emend.evals.run.run import run
from emend.evals.run.setup.benchmark import load_benchmark
from emend.memory.errors import BadData, BadSettings, RunRefused
from tests.evals.build.recoe.test_records import RIVERS, TOWNS


def config(folder: Path, facts: Any = (*RIVERS, *TOWNS), **fields: Any) -> BuildConfig:
    file = folder / "facts.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("subject", "relation", "object"), *facts])
    return BuildConfig.model_validate({"source": str(file), "cases": 18, **fields})


def test_the_folder_is_recoe_with_all_schemes(tmp_path: Path):
    card = build("recoe", config(tmp_path), tmp_path / "out")
    assert card.models == {} and card.items == 18
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    cases = list(benchmark.cases("triple"))
    assert len(cases) == 18 and all(edit.form == "triplet" for case in cases for edit in case.edits)
    row = json.loads((tmp_path / "out" / "superlative.json").read_bytes())[0]
    changed = [fact for facts in row["counterfactuals_per_choice"].values() for fact in facts]
    assert len(changed) == 2 and len(row["facts_per_choice"]) == 8
    assert all(fact["atomic_facts"] == [fact["fact"]] and " has a length of " in fact["fact"] for fact in changed)


def test_schemes_are_chosen_and_unknown_ones_refused(tmp_path: Path):
    build("recoe", config(tmp_path, schemes="sorting, counting", cases=4), tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out").glob("*ing.json")} == {"sorting", "counting"}
    with pytest.raises(BadSettings, match="superlative"):
        build("recoe", config(tmp_path, schemes="superlatives"), tmp_path / "other")


def test_an_author_is_refused_and_nothing_is_foreseen_to_cost(tmp_path: Path):
    with pytest.raises(BadSettings, match="--model"):
        build("recoe", config(tmp_path, model="tiny"), tmp_path / "out")
    assert foresee("recoe", config(tmp_path)).items == 18 and foresee("recoe", config(tmp_path)).roles == ()


def test_a_table_without_numbers_and_shared_objects_gives_no_question(tmp_path: Path):
    with pytest.raises(BadData, match="numbers of one unit"):
        build("recoe", config(tmp_path, [("Ana", "mother", "Ines"), ("Tom", "mother", "Eva")]), tmp_path / "out")


def test_other_records_do_not_overwrite_a_folder(tmp_path: Path):
    build("recoe", config(tmp_path), tmp_path / "out")
    build("recoe", config(tmp_path), tmp_path / "out")
    with pytest.raises(RunRefused, match="another --out"):
        build("recoe", config(tmp_path, seed=1), tmp_path / "out")


@pytest.mark.parametrize("name", ["items.jsonl", "items-source.json"])
def test_a_pipe_in_the_folder_is_named_and_not_waited_for(tmp_path: Path, name: str):
    build("recoe", config(tmp_path), tmp_path / "out")
    (tmp_path / "out" / name).unlink()
    os.mkfifo(tmp_path / "out" / name)
    try:
        build("recoe", config(tmp_path), tmp_path / "out")
    except BadData as error:
        assert name in str(error)
    else:
        assert (tmp_path / "out" / name).is_file()  # replaced


@pytest.mark.slow
def test_a_run_scores_every_scheme(tmp_path: Path):
    build("recoe", config(tmp_path), tmp_path / "out")
    options = {"editors": ("unedited", "in_context"), "model": "tiny", "settings": ("sentence",)}
    run(RunConfig.model_validate({"benchmark": str(tmp_path / "out"), **options}), tmp_path / "run")
    assert {row.metric for row in report(tmp_path / "run").rows} >= {"superlative", "subtraction"}
