"""AKEW's MQuAKE-CF from chains: paragraphs and multi-hop questions of the same edits in one folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.sources.akew import read_source
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.akew import sample
from emend.memory.errors import BadData
from tests.evals.construction.sources.tables import write_table
from tests.provider.protocols import Asked
from tests.provider.server import Provider

COUNT = 12


@pytest.fixture
def chains(tmp_path: Path) -> Path:
    build("chains", BuildConfig.model_validate({"source": str(write_table(tmp_path)), "cases": COUNT}), tmp_path / "c")
    return tmp_path / "c"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "MQuAKE-CF.json").read_bytes())
    return rows


def whole(chains: Path, out: Path, refused: str = "") -> Any:
    """The benchmark of the chains, by an author who writes nothing about one fact, if any."""

    def reply(asked: Asked) -> str:
        fact = asked.prompt.rpartition("Fact: ")[2].partition("\n")[0]
        return "" if refused and fact == refused else sample(asked.prompt)

    with Provider(reply) as provider:
        config = {"source": str(chains), "model": provider.spec("chat"), "recipe": "paper"}
        return build("akew", BuildConfig.model_validate(config), out, needs_review=False)


def test_each_edit_is_one_item_whatever_number_of_chains_has_it(chains: Path):
    items = list(read_source(str(chains))[0])
    edits = {
        (e["subject"], e["relation_id"], e["target_new"]["str"])
        for r in rows_of(chains)
        for e in r["requested_rewrite"]
    }
    assert len(items) == len(edits)
    assert sum(len(item.fields["chains"]) for item in items) == COUNT


@pytest.mark.slow
def test_all_settings_of_one_folder_have_edits_and_multi_hop_questions(chains: Path, tmp_path: Path):
    card = whole(chains, tmp_path / "out")
    assert (card.content.benchmark, card.content.options) == ("akew", {"dataset": "mquake_cf"})
    assert [row["questions"] for row in sorted(rows_of(tmp_path / "out"), key=lambda row: row["questions"])] == sorted(
        row["questions"] for row in rows_of(chains)
    )
    settings = ("struct", "unstruct", "extract")
    fields = {"benchmark": str(tmp_path / "out"), "editors": ("in_context",), "settings": settings, "model": "tiny"}
    run(RunConfig.model_validate(fields), tmp_path / "run")
    filled = {(row.setting, row.metric) for row in report(tmp_path / "run").rows if row.n}
    assert {(setting, metric) for setting in settings for metric in ("EditAcc", "MultiHop")} <= filled


def test_a_chain_lacks_where_the_paragraph_of_one_of_its_edits_does(chains: Path, tmp_path: Path):
    first = next(iter(read_source(str(chains))[0]))
    whole(chains, tmp_path / "out", refused=first.fields["fact"])
    facts = {edit["fact_new"] for row in rows_of(tmp_path / "out") for edit in row["requested_rewrite"]}
    assert first.fields["fact"] not in facts and 0 < len(rows_of(tmp_path / "out")) < COUNT


def test_without_any_whole_chain_there_is_no_benchmark(chains: Path, tmp_path: Path):
    with pytest.raises(BadData), Provider(lambda asked: "") as provider:
        config = BuildConfig.model_validate({"source": str(chains), "model": provider.spec("chat")})
        build("akew", config, tmp_path / "out")
