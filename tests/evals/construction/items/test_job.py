"""Items made one by one: their lines, a construction that is interrupted, and what its folder shows."""

import json
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import RUN, build
from emend.evals.construction.items import maker
from emend.evals.construction.items.line import read_item_lines
from emend.evals.construction.items.setup import load_construction
from emend.evals.construction.items.source import read_item_source
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.evals.show.trace.case_trace import trace
from emend.memory.errors import BadData, BadSettings, ModelReplyError, RunRefused, TooManyFailures
from emend.memory.probe import Usage
from tests.evals import command_line
from tests.evals.construction.authors import author
from tests.evals.toys import ScriptedModel, SpeakingModel
from tests.provider.protocols import Asked, Raw
from tests.provider.server import Provider

COUNT = 8


def _facts(folder: Path, count: int = COUNT) -> Path:
    rows = [{"subject": f"Lock {n}", "relation": "builder", "object": f"Ana Number{n}"} for n in range(count)]
    file = folder / "facts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def _config(source: Path, provider: Provider, **fields: Any) -> BuildConfig:
    models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
    return BuildConfig.model_validate({"source": str(source), **models, **fields})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built")
    with Provider(author) as provider:
        build("akew", _config(_facts(path), provider), path / "out")
    return path / "out"


def test_an_author_that_continues_text_is_refused(tmp_path: Path):
    config = BuildConfig(source=str(_facts(tmp_path)), model="plain-model")
    with pytest.raises(BadSettings, match="--model plain-model has no chat template.*Name a chat model"):
        load_construction("akew", config, config.source, ScriptedModel())
    assert load_construction("akew", config, config.source, SpeakingModel()).kind == "akew"


def test_a_line_has_the_fields_of_the_source_and_the_result_as_they_are(folder: Path):
    lines = read_item_lines(folder / RUN)
    assert [line.item["subject"] for line in lines] == [f"Lock {n}" for n in range(COUNT)]
    for line in lines:
        assert line.verdict == ("kept" if line.result else "rejected")
        assert line.usage.calls and line.path[0] == "write"
    stored = json.loads((folder / RUN / "records.jsonl").read_text().splitlines()[0])
    assert stored["job"] == "construct" and isinstance(stored["item"], dict)
    assert not {"query", "answer", "gold"} & stored.keys()


def test_a_rejected_item_says_which_filters_rejected_its_attempts(folder: Path):
    rejected = [line for line in read_item_lines(folder / RUN) if line.verdict == "rejected"]
    for line in rejected:
        assert line.rejected_by == "refusal" and len(line.rejections) == line.attempts


def test_report_and_trace_show_kept_items_filters_and_steps(folder: Path):
    rows = {row.metric: row for row in report(folder / RUN).rows}
    assert rows["kept"].n == COUNT and {"refusal", "conveys"} <= rows.keys()
    (probe,) = trace(folder / RUN, "1").probes
    assert [step["node"] for step in probe.steps] == list(read_item_lines(folder / RUN)[0].path)


def test_the_manifest_names_the_job(folder: Path):
    manifest = Manifest.read(folder / RUN)
    assert manifest.job == "construct" and manifest.units == COUNT


def test_a_construction_that_is_cut_off_goes_on_and_repeats_no_call(tmp_path: Path):
    with Provider(author) as provider:
        build("akew", _config(_facts(tmp_path), provider), tmp_path / "whole")
        calls = provider.count
    numbers, refusals = count(1), list[int]()
    is_back = threading.Event()

    def refuse_after_ten(asked: Asked) -> Raw | str:
        number = next(numbers)
        if number <= 10 or is_back.is_set():
            return author(asked)
        refusals.append(number)
        return Raw({"error": {"code": "invalid_api_key", "message": "Incorrect API key provided."}}, 401)

    with Provider(refuse_after_ten) as provider:
        fields = _config(tmp_path / "facts.jsonl", provider, concurrency=1)
        with pytest.raises(TooManyFailures):
            build("akew", fields, tmp_path / "out")
        is_back.set()
        build("akew", fields, tmp_path / "out")
        assert refusals and provider.count - len(refusals) == calls
    whole, resumed = ((tmp_path / name / "CounterFact.json").read_bytes() for name in ("whole", "out"))
    assert whole == resumed


def test_an_unusable_reply_leaves_an_item_unscored_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def replies_fail(*arguments: object) -> None:
        raise ModelReplyError("the reply is no paragraph", reply="?", usage=Usage(calls=1))

    with Provider(author) as provider:
        setup = load_construction("akew", _config(_facts(tmp_path, 1), provider), str(tmp_path / "facts.jsonl"))
        monkeypatch.setattr(maker, "run_graph", replies_fail)
        made = setup.maker.make(setup.items[0])
    assert made.outcome.unscored == "the reply is no paragraph" and not made.outcome.values
    assert made.usage.calls == 1 and provider.count == 0


def test_another_construction_in_the_folder_is_refused_before_a_call(folder: Path, tmp_path: Path):
    with Provider(author) as provider, pytest.raises(RunRefused):
        build("akew", _config(_facts(tmp_path), provider, language="de"), folder)
        assert provider.count == 0


def test_resume_goes_on_with_a_construction(tmp_path: Path):
    with Provider(author) as provider:
        build("akew", _config(_facts(tmp_path, 3), provider), tmp_path / "out")
        records = tmp_path / "out" / RUN / "records.jsonl"
        lines = records.read_bytes().splitlines(keepends=True)
        records.write_bytes(b"".join(lines[:2]))
        assert command_line.emend("resume", str(tmp_path / "out" / RUN)) == 0
        assert len(records.read_bytes().splitlines()) == 3
        steps = [line for line in read_lines(tmp_path / "out" / RUN, "events.jsonl") if "unit" in line]
        assert {line["unit"] for line in steps} == {line.unit for line in read_item_lines(tmp_path / "out" / RUN)}


def test_a_source_without_an_item_is_refused_with_what_cannot_be_read(tmp_path: Path):
    (tmp_path / "lock.pdf").write_bytes(b"no PDF")
    with pytest.raises(BadData, match=r"no item for kind questions.*lock\.pdf"):
        read_item_source("questions", BuildConfig(source="x", model="scripted"), str(tmp_path))
