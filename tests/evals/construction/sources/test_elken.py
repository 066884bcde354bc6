"""From a table of facts to ELKEN's files, without a model and with an author on loopback."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.estimate import estimate_build
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.elken import sample
from emend.memory.errors import BadData
from tests.evals.construction.sources.test_events import FACTS
from tests.provider.protocols import Asked
from tests.provider.server import Provider


def config(folder: Path, **fields: Any) -> BuildConfig:
    file = folder / "facts.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("subject", "relation", "object"), *FACTS])
    return BuildConfig.model_validate({"source": str(file), "cases": 15, **fields})


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "test.json").read_bytes())
    return rows


def test_without_a_model_the_folder_is_elken_with_answers_that_follow(tmp_path: Path):
    card = build("elken", config(tmp_path), tmp_path / "out")
    assert card.models == {} and 0 < card.items == len(rows_of(tmp_path / "out"))
    benchmark, settings = load_benchmark(str(tmp_path / "out"), None, {})
    case = next(iter(benchmark.cases(settings[0])))
    assert case.edits[0].text.startswith("Player") and " transferred to Club" in case.edits[0].text
    kinds = {probe.kind for probe in case.probes}
    assert {"fact_direct", "fact_background", "fact_unknown"} <= kinds and any(kind.endswith("local") for kind in kinds)


@pytest.mark.slow
def test_a_run_scores_the_folder(tmp_path: Path):
    build("elken", config(tmp_path), tmp_path / "out")
    run(RunConfig(benchmark=str(tmp_path / "out"), editors=("in_context",), model="tiny"), tmp_path / "run")
    assert sum(row.n for row in report(tmp_path / "run").rows) > 0


def test_an_author_words_the_events_and_keeps_their_names(tmp_path: Path):
    build("elken", config(tmp_path), tmp_path / "plain")
    events = [row["event"] for row in rows_of(tmp_path / "plain")]
    club = events[0].rpartition("to ")[2].rstrip(".")

    def leave_out(asked: Asked) -> str:
        return sample(asked.prompt).replace(club, "a club")

    with Provider(leave_out) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        card = build("elken", config(tmp_path, **models), tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert card.dropped == {"key_information": sum(club in event for event in events)}
    assert rows and all(row["event"].endswith("reporters.") and club not in row["event"] for row in rows)


@pytest.mark.parametrize("limit", [None, 1])
def test_the_calls_estimated_are_those_sent(tmp_path: Path, limit: int | None):
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        fields = config(tmp_path, **models, limit=limit)
        estimate = estimate_build("elken", fields)
        assert provider.count == 0
        build("elken", fields, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        messages = [message["content"] for body in sent for message in body["messages"]]
        assert role.calls == len(sent) == estimate.items
        assert role.input_tokens == pytest.approx(sum(map(len, messages)) / 4 + 4 * len(messages), rel=0.1)


def test_types_of_ones_own_take_the_place_of_the_shipped_ones(tmp_path: Path):
    types = tmp_path / "types.toml"
    types.write_text(
        "[born]\nsplit = 'train'\ntemplate = '{A} moved back to {B}.'\n"
        "roles.A = {subject_of = 'place of birth'}\nroles.B = {path = 'A / place of birth'}\n"
        "impacts = [{subject = 'A', relation = 'residence', object = 'B', question = 'Where does {} live?'}]\n"
    )
    card = build("elken", config(tmp_path, relations=str(types), cases=3), tmp_path / "out")
    assert card.content.options["split"] == "train" and card.content.files == ("train.json",)
    benchmark, settings = load_benchmark(str(tmp_path / "out"), None, {})
    assert len(list(benchmark.cases(settings[0]))) == 3


def test_a_table_without_the_roles_is_refused_with_the_relations_that_it_needs(tmp_path: Path):
    file = tmp_path / "other.csv"
    file.write_text("subject,relation,object\nA,colour,red\n")
    with pytest.raises(BadData, match="member of sports team"):
        build("elken", config(tmp_path, source=str(file)), tmp_path / "out")
