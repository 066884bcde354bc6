"""The rules lead from what a benchmark measures to what its paper prints."""

from typing import Any

import pytest

from emend.evals.data.benchmarks.akew.benchmark import Akew
from emend.evals.data.benchmarks.docter.benchmark import DocTER
from emend.evals.data.benchmarks.elken.benchmark import ELKEN
from emend.evals.data.benchmarks.recoe.benchmark import SCHEMES, ReCoE
from emend.evals.papers.compare_published import DERIVED
from emend.evals.papers.tables import NAMES, _toml, paper, papers, rules, same_model
from emend.evals.results.aggregate.judged import judged_columns
from tests.paths import DATA

BUILT: dict[str, list[Any]] = {
    "akew": [lambda name=name: Akew(DATA / "akew", {"dataset": name}) for name in ("mquake_cf", "counterfact")],
    "docter": [lambda: DocTER(DATA / "docter", {"blocks": "edit_success,locality,reasoning,cross_en_zh"})],
    "elken": [lambda: ELKEN(DATA / "elken", {"blocks": "fact,tendency_m,tendency_g"})],
    "recoe": [lambda: ReCoE(DATA / "recoe", {"superlative_file": "lakes.json"})],
}
"""The benchmarks with everything that they can ask, over the small files of the tests."""
JUDGED = {("overall", "fact_direct"), *(("supported", scheme) for scheme in SCHEMES)}
"""Outputs and kinds of judged records."""


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_leads_to_a_published_figure_and_from_a_metric_of_the_benchmark(name: str) -> None:
    told, cells = rules(name), [cell for found in paper(name).tables for cell in found.cells]
    own = {metric.name for build in BUILT[name] for metric in build().metrics()}
    own |= {metric.name for metric in ELKEN.definition.metrics if name == "elken"}  # `recall` has a file of its own
    by_judge = {judge: {metric.name for metric in judged_columns(judge, JUDGED)} for judge in ("tendency", "coherence")}
    methods = {cell.method for cell in cells}
    assert {rule.method for rule in told.methods} <= methods
    for rule in told.metrics:
        there = [cell for cell in cells if (cell.metric, cell.data) == (rule.published, rule.data)]
        assert there and rule.setting in (None, *(cell.setting for cell in there)), rule
        assert rule.derived in {"", *DERIVED}, rule
        assert rule.derived or rule.metric in by_judge.get(rule.judge, own), rule
        assert rule.method is None or rule.method in methods


def test_every_model_of_a_table_has_the_names_it_goes_by_and_no_other_has() -> None:
    models = {cell.model for told in papers() for found in told.tables for cell in found.cells if cell.model}
    assert set(_toml("counterparts")["models"]) == models


@pytest.mark.parametrize(
    ("run", "published", "same"),
    [
        ("hf:/models/gpt2-xl", "GPT2-XL", True),
        ("hf:openai-community/gpt2-xl/", "GPT2-XL", True),
        ("hf:/models/gpt2", "GPT2-XL", False),
        ("hf:Mistral-7B-v0.1", "Mistral (7B)", True),
        ("hf:Mistral-7B-v0.3", "Mistral (7B)", False),
        ("openai:gpt-3.5-turbo@http://127.0.0.1:1/v1", "ChatGPT", True),
        ("openai:gpt-4o", "GPT-4", False),
        ("langchain:google_genai:gemini-pro", "Gemini Pro", True),
        ("openai:gpt-4", "GPT-4", True),
        ("tiny", "GPT2-XL", False),
    ],
)
def test_a_model_is_the_papers_only_by_its_whole_name(run: str, published: str, same: bool) -> None:
    assert same_model(run, published) == same
