"""`emend extract` with a chat model: how it is loaded, and within which limits it is called."""

import json
import re

import pytest

from tests.evals.command_line import emend
from tests.provider.server import Provider

REPLY = json.dumps({"triplets": [{"subject": "Ana", "relation": "is", "object": "here"}]})


def extract(tmp_path, *arguments):
    given = ["--benchmark", "tinyworld", "--limit", "4", "--embedding", "lexical", "--out", str(tmp_path / "t.jsonl")]
    return emend("extract", *given, *arguments)


@pytest.mark.slow
def test_a_chat_model_is_called_with_its_settings_and_within_the_limit(tmp_path, capsys):
    with Provider(lambda asked: REPLY) as provider:
        words = ("--method", "llm", "--model", provider.spec("openai"), "--set", "model.temperature=0.5")
        assert extract(tmp_path, *words, "--max-calls", "3") == 2
        assert provider.count == 3 and "--max-calls" in capsys.readouterr().err
        assert extract(tmp_path, *words) == 0  # goes on where it stopped
        assert provider.count == 4
        assert {request.body["temperature"] for request in provider.requests} == {0.5}
        assert extract(tmp_path, *words[:-1], "model.temperature=0") == 2
        assert provider.count == 4 and "extractor" in capsys.readouterr().err  # another way of reading


@pytest.mark.slow
def test_the_judge_of_errors_has_its_own_settings(tmp_path):
    with Provider(lambda asked: "wrong") as provider:
        words = ("--judge", provider.spec("openai"), "--set", "judge.max_tokens=77")
        assert extract(tmp_path, *words) == 0
        assert provider.requests and all(77 in request.body.values() for request in provider.requests)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "model.temperature=1"), "the model that extracts is not called"),
        (("--set", "judge.temperature=1"), "the model that classifies errors is not called"),
        (("--set", "rag.k=1"), "only model.key=value and judge.key=value"),
        (("--method", "llm", "--model", "tiny", "--set", "model.api_key=x"), "api_key"),
    ],
)
def test_settings_of_a_model_that_is_not_called_are_refused(tmp_path, capsys, arguments, says):
    assert extract(tmp_path, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not list(tmp_path.glob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "problem"), [("401", "KeyRefused|key is not accepted"), ("429-after", "resume")])
def test_extraction_ends_at_the_first_refusal_that_lasts(tmp_path, keys, capsys, fault, problem):
    with Provider(lambda asked: REPLY, choose=lambda number: fault, after="86400") as provider:
        assert extract(tmp_path, "--method", "llm", "--model", provider.spec("chat")) == 2
        assert re.search(problem, capsys.readouterr().err) and provider.count == 1
