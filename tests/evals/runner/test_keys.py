"""API keys of the environment are in no file and in no output, whatever providers and models repeat."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.journal import FILE
from emend.evals.cli.main import main
from emend.evals.log.lines import ERRORS, EVENTS
from emend.evals.log.records import read_lines, read_records
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.redaction import refuse_secrets
from emend.memory.store.chroma import ChromaMemory
from tests.evals.judged_runs import elken_run, verdict
from tests.evals.toys import BENCHMARK
from tests.params import mostly_slow
from tests.provider.protocols import Asked, Said
from tests.provider.server import Provider
from tests.provider.speaking import believes

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
pytest.importorskip("langchain_anthropic", reason="the extra 'anthropic' is not installed")

KEYS = {"OPENAI_API_KEY": "sk-planted-0123456789", "ANTHROPIC_API_KEY": "sk-ant-planted-9876543210"}
RUN = f"run --benchmark {BENCHMARK} --benchmark-option cases=3 --benchmark-option probes=0 --retriever bm25 "
RUN += "--embedding lexical"
EDITORS = "--editor rag --editor agent --editor mello --set mello.form=structured --concurrency 2 --fail-on-error false"


@pytest.fixture
def emend(monkeypatch, capsys) -> Callable[..., tuple[int, str]]:
    """Runs a command of the command line: its exit code, and all that it shows."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)

    def command(line: str, *more: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["emend", *line.split(), *more])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(str(ended.value.code or 0)), printed.out + printed.err

    return command


def repeats(asked: Asked) -> Said | str:
    """Says both keys beside whatever it has to say: in calls of tools, in fields, and in text."""
    keys, said = " ".join(KEYS.values()), believes(asked)
    if isinstance(said, Said):
        return said._replace(calls=[call._replace(arguments=with_keys(call.arguments, keys)) for call in said.calls])
    return json.dumps(with_keys(json.loads(said), keys)) if said.startswith("{") else f"{said} {keys}"


def with_keys(fields: dict[str, Any], keys: str) -> dict[str, Any]:
    return {name: f"{entry} {keys}" if isinstance(entry, str) and entry else entry for name, entry in fields.items()}


def strike(number: int) -> str:
    """An error that repeats the headers, one that names the key, and a refusal that does."""
    return {1: "echo", 4: "401", 7: "refusal"}.get(number, "")


def hold_no_key(folder: Path) -> int:
    """How many files there are, none of which has a key."""
    written = [path for path in folder.rglob("*") if path.is_file()]
    values = {path.name for path in written for key in KEYS.values() if key.encode() in path.read_bytes()}
    assert not values
    return len(written)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    with ChromaMemory(tmp_path / "memory", LexicalEmbedding()) as opened:
        fact = Triplet(subject="Land1", relation="capital", object="New-1")
        opened.add([Edit.from_triplet(fact, "The capital of {} is")])
    return tmp_path / "memory"


@pytest.mark.parametrize("protocol", mostly_slow(["chat", "responses", "anthropic"], "chat"))
def test_no_key_is_in_any_file_or_output(protocol, emend, memory, tmp_path):
    folder, name = tmp_path / "run", "ANTHROPIC_API_KEY" if protocol == "anthropic" else "OPENAI_API_KEY"
    with Provider(repeats, choose=strike) as provider:
        model = ["--model", provider.spec(protocol)]
        more = ["--set", "model.use_responses_api=true"] if protocol == "responses" else []
        where = ["--out", str(folder), "--cache", str(tmp_path / "kept"), "--max-calls", "12"]
        code, shown = emend(f"{RUN} {EDITORS}", *model, *more, *where)
        assert code == 2 and "KeyRefused" in shown
        code, limited = emend("resume", str(folder), "--trust", BENCHMARK, "--max-calls", "8")
        assert code == 2 and hold_no_key(folder) > 5 and (folder / FILE).exists()
        code, resumed = emend("resume", str(folder), "--trust", BENCHMARK, "--max-calls", "1000")
        assert code == 0 and not (folder / FILE).exists()
        items = [shown, limited, resumed, emend("doctor", *model)[1]]
        for way in ("", "1", "1 --json", "1 --md", "2 --errors", "3 --mermaid"):
            items.append(emend("trace", str(folder), *way.split())[1])
        items += [emend("report", str(folder), *way.split())[1] for way in ("", "--json")]
        ask = ["--memory", str(memory), "--retriever", "bm25", *model, *more, "--editor", "agent", "--trace"]
        items += [emend("ask", *ask, *way, "What is the capital of Land1?")[1] for way in ([], ["--json"])]
    assert hold_no_key(tmp_path) > 8
    assert all(shown for shown in items) and not [key for key in KEYS.values() if key in "".join(items)]
    # They did come, so that there was something to hide:
    assert "echo" in {request.fault for request in provider.requests}
    headers = {"x-api-key", "authorization"} & provider.requests[0].headers.keys()
    assert any(KEYS[name] in provider.requests[0].headers[header] for header in headers)
    assert all(f"<{name}>" in "".join(items[-2:]) for name in KEYS)
    assert any(f"<{name}>" in str(record.answer) for record in read_records(folder) for name in KEYS)
    assert any(f"<{name}>" in line["message"] for line in read_lines(folder, ERRORS))
    assert f"<{name}>" in (folder / EVENTS).read_text(encoding="utf-8")


def test_no_key_is_in_a_scoring_or_a_file_of_triplets(emend, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    keys, folder, triplets = " ".join(KEYS.values()), elken_run(tmp_path / "run"), tmp_path / "triplets.jsonl"

    def judges(asked: Asked) -> str:
        told = json.loads(verdict(asked.prompt))
        return json.dumps({name: keys if name == "reason" else value for name, value in told.items()})

    with Provider(judges, choose=lambda number: {1: "echo", 3: "refusal"}.get(number, "")) as provider:
        code, judged = emend(f"judge run {folder} --judge {provider.spec('chat')} --kind tendency --no-batch")
        assert code == 0 and provider.count > 3
    reply = json.dumps({"triplets": [{"subject": f"Ana {keys}", "relation": "lives in", "object": "Madrid"}]})
    extract = "extract --benchmark tinyworld --limit 3 --embedding lexical --method llm --validation off"
    with Provider(lambda asked: reply, choose=lambda number: {1: "refusal"}.get(number, "")) as provider:
        shown = [emend(f"{extract} --model {provider.spec('chat')} --out {triplets}") for _ in range(2)]
    assert [code for code, _ in shown] == [0, 0] and triplets.read_bytes().count(b"\n") >= 3
    assert hold_no_key(tmp_path) > 8 and not [key for key in KEYS.values() if key in judged + str(shown)]
    kept = b"".join(path.read_bytes() for path in (folder / "scorings").iterdir())
    assert b"<OPENAI_API_KEY>" in kept and b"<OPENAI_API_KEY>" in triplets.read_bytes()


@pytest.mark.parametrize(("fault", "problem"), [("401", "KeyRefused|key is not accepted"), ("429-after", "resume")])
def test_extraction_ends_at_the_first_refusal_that_lasts(emend, tmp_path, fault, problem):
    command = f"extract --benchmark tinyworld --limit 6 --embedding lexical --method llm --out {tmp_path / 't.jsonl'}"
    with Provider(believes, choose=lambda number: fault, after="86400") as provider:
        code, told = emend(f"{command} --model {provider.spec('chat')}")
        assert code == 2 and re.search(problem, told) and provider.count == 1


@pytest.mark.parametrize(
    "setting",
    [
        "model.api_key=sk-leak-123456",
        "model.openai_api_key=sk-leak-123456",
        "model.api-key=sk-leak-123456",
        'model.default_headers={"x-api-key":"sk-leak-123456"}',
        'model.model_kwargs={"extra_headers":{"Authorization":"sk-leak-123456"}}',
        'model.default_query={"key":"sk-leak-123456"}',
        "model.openai_proxy=http://u:sk-leak-123456@127.0.0.1",
    ],
)
def test_a_key_among_the_settings_is_refused_and_written_nowhere(emend, tmp_path, setting):
    code, output = emend(
        f"{RUN} --editor rag --model openai:m@http://127.0.0.1:9/v1 --out {tmp_path / 'run'}", "--set", setting
    )
    assert code == 2 and "may contain a key" in output and "sk-leak" not in output
    assert not any(b"sk-leak" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_key_in_the_address_is_refused_and_written_nowhere(emend, tmp_path):
    address = "openai:m@http://127.0.0.1:9/v1?api_key=sk-leak-123456"
    code, output = emend(f"{RUN} --editor rag --model {address} --out {tmp_path / 'run'}")
    assert code == 2 and "has a query, which a run would write down" in output
    assert not any(b"sk-leak" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_setting_that_no_client_knows_is_refused_before_any_call(emend, tmp_path):
    line = f"{RUN} --editor rag --model openai:m@http://127.0.0.1:9/v1 --out {tmp_path / 'run'}"
    code, output = emend(line, "--set", "model.temprature=1")
    assert code == 2 and "unknown setting 'temprature'" in output and "did you mean 'temperature'" in output
    assert "UserWarning" not in output


def test_a_key_among_a_judge_s_settings_is_refused(emend, tmp_path):
    code, output = emend(f"judge run {tmp_path} --judge openai:m", "--set", "judge.openai_api_key=sk-leak-123456")
    assert code == 2 and "--set judge.openai_api_key may contain a key" in output and "sk-leak" not in output


def test_settings_that_only_sound_like_keys_are_taken():
    refuse_secrets({"max_tokens": 5, "model_kwargs": {"prompt_cache_key": "a"}, "keep_mb": 1}, "model")
