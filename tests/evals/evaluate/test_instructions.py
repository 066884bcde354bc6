"""A run that asks by a file of instructions: with and without an event, and by the paper's form of replies."""

from pathlib import Path

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.memory.errors import BadData, BadSettings, ModelError
from tests.paths import DATA
from tests.provider.protocols import Asked
from tests.provider.server import Provider

FILE = """
[fact]
task = "Assume the event."
ask = "Event: {facts}\\nQ: {question}"
form = "So: {answer}"
[fact.alone]
task = "Use your knowledge."
ask = "Q: {question}"
form = "So: {answer}"
"""


def config(folder: Path, provider: Provider, benchmark: str, text: str, **fields: object) -> RunConfig:
    (folder / "prompts.toml").write_text(text)
    values = {"benchmark": benchmark, "data": str(DATA / benchmark), "prompts": str(folder / "prompts.toml")}
    return RunConfig.model_validate({**values, "model": provider.spec("chat"), **fields})


def test_elken_is_asked_in_other_words_with_and_without_an_event(tmp_path: Path):
    def reply(asked: Asked) -> str:
        return "I thought about it.\nSo: Tarnfield"

    with Provider(reply) as provider:
        editors = {"editors": ("unedited", "in_context"), "benchmark_options": {"blocks": "fact"}, "limit": 1}
        run(config(tmp_path, provider, "elken", FILE, **editors), tmp_path / "run")
        prompts = [request.body["messages"][0]["content"] for request in provider.requests]
    alone = [prompt for prompt in prompts if prompt.startswith("Use your knowledge.\n\nQ: ")]
    edited = [prompt for prompt in prompts if prompt.startswith("Assume the event.\n\nEvent: ")]
    assert alone and edited and len(alone) + len(edited) == len(prompts)
    records = list(read_records(tmp_path / "run"))
    assert {record.answer for record in records} == {"Tarnfield"}
    choices = Manifest.read(tmp_path / "run").benchmark["choices"]
    assert any("prompts.toml" in choice for choice in choices)


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "kind"), [("recoe", "counting"), ("akew", "multihop"), ("akew", "efficacy")])
def test_other_papers_are_asked_by_their_kinds(benchmark: str, kind: str, tmp_path: Path):
    text = f'[any]\nask = "ANY {{facts}} {{question}}"\n[{kind}]\nask = "{kind.upper()} {{question}}"\n'
    with Provider(lambda asked: "3") as provider:
        run(config(tmp_path, provider, benchmark, text, editors=("in_context",), limit=3), tmp_path / "run")
        prompts = [request.body["messages"][0]["content"] for request in provider.requests]
    assert prompts and all(prompt.startswith(("ANY ", f"{kind.upper()} ")) for prompt in prompts)


def test_a_kind_that_no_question_has_is_named_before_the_model_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def values(text: str) -> RunConfig:
        (tmp_path / "prompts.toml").write_text(text)
        fields = {"benchmark": "tinyworld", "model": "hf:no-such-folder", "editors": ("rag",), "limit": 1}
        return RunConfig.model_validate({**fields, "prompts": str(tmp_path / "prompts.toml")})

    unknown = '[efficiency]\nask = "{question}"\n'
    with pytest.raises(BadSettings, match=r"tinyworld has no question .* 'efficiency': did you mean 'efficacy'"):
        run(values(unknown), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ModelError, match="no-such-folder"):
        run(values(f'{unknown}[multi]\nask = "{{question}}"\n'), tmp_path / "run")
    (warning,) = [text for text in caplog.messages if "--prompts" in text]
    assert "[efficiency] is not used" in warning and "efficacy, multihop, neighborhood" in warning


def test_a_file_that_cannot_be_read_ends_a_run_before_it_asks(tmp_path: Path):
    with Provider(lambda asked: "3") as provider:
        with pytest.raises(BadData, match="--prompts"):
            run(config(tmp_path, provider, "elken", '[fact]\nask = "{event}"', editors=("rag",)), tmp_path / "run")
        assert provider.count == 0 and not (tmp_path / "run").exists()
