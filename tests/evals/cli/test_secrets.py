"""No key is written or shown by any command that talks to a model or a collector, wherever a server repeats it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from emend.agents.providers.policy import Backoff
from emend.agents.providers.rate_limit import RateLimiter
from emend.evals.log.lines import ERRORS, RECORDS
from emend.memory.redaction import refuse_secrets
from tests.evals.toys import BENCHMARK
from tests.params import mostly_slow
from tests.provider.protocols import Asked, Raw, Said, ToolCall, whole
from tests.provider.server import Provider
from tests.provider.speaking import believes

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")

KEY = "sk-planted/0123+456789=z"
HEADER = "collector/9876+543210=z"
FORMS = (KEY, quote(KEY, safe=""))
LEAK = "sk-leak-123456"
NOBODY = "openai:m@http://127.0.0.1:9/v1"
ECHO = f"Bearer {KEY} and {quote(KEY, safe='')}"
TRIPLETS = json.dumps({"triplets": [{"subject": f"Ana {ECHO}", "relation": "is", "object": f"here {ECHO}"}]})
JUDGED = json.dumps({"reason": ECHO, "verdict": "yes"})


def error(status: int, headers: dict[str, str] | None = None) -> Callable[[Asked], Raw]:
    """A reply that is an error which repeats the key."""
    fields = {"message": f"refused: {ECHO}", "type": ECHO, "code": ECHO, "param": ECHO}
    return lambda asked: Raw({"type": "error", "error": fields}, status, headers or {})


def spoken(asked: Asked) -> Said | str:
    """A usable reply in whatever form is asked for, with the key in its text or in the arguments of its calls."""
    if "triplets" in asked.prompt:
        return TRIPLETS
    if "verdict" in asked.prompt or "Verdict" in asked.prompt:
        return JUDGED
    said = believes(asked)
    if isinstance(said, Said):
        return said._replace(calls=[ToolCall(call.name, call.arguments | {"note": ECHO}) for call in said.calls])
    if said.startswith("{"):
        return json.dumps(
            {name: f"{v} {ECHO}" if isinstance(v, str) and v else v for name, v in json.loads(said).items()}
        )
    return f"{said} {ECHO}"


def changed(**fields: Any) -> Callable[[Asked], Raw]:
    """A reply without the key in its text, but with other fields of its body changed."""

    def reply(asked: Asked) -> Raw:
        said = believes(asked)
        return Raw(whole(asked, said if isinstance(said, Said) else Said(said)) | fields)

    return reply


PLACES: dict[str, Callable[[Asked], Any]] = {
    "text": spoken,
    "unusable text": lambda asked: f"I would rather say {ECHO}.",
    "refusal": lambda asked: Said(refusal=f"No: {ECHO}."),
    "uninvited tool": lambda asked: Said(calls=[ToolCall(ECHO, {ECHO: ECHO})]),
    "cut off": lambda asked: Said(f'{{"a": "{ECHO}', cut=True),
    "names": changed(model=ECHO, id=ECHO, system_fingerprint=ECHO),
    "usage": changed(usage={"prompt_tokens": ECHO, "completion_tokens": 1, "total_tokens": ECHO}),
    "no choices": changed(choices=ECHO),
    "error in 200": error(200),
    "page": lambda asked: Raw(f"<html>{ECHO}</html>"),
    "redirect": lambda asked: Raw({}, 307, {"Location": f"http://127.0.0.1:9/{quote(KEY, safe='')}?{KEY}"}),
    "header": error(503, {"X-Request-Id": ECHO, "Retry-After": ECHO, "X-Echo": ECHO}),
    **{str(status): error(status) for status in (400, 401, 403, 404, 422, 429, 500)},
}

RUN = (
    f"run --benchmark {BENCHMARK} --benchmark-option cases=2 --retriever bm25 --embedding lexical --out run "
    "--editor rag --editor mello --editor agent --editor crag --set crag.evaluator=model --set mello.form=structured "
    "--cache replies --fail-on-error false"
).split()
LABEL = {"kind": "coherence", "item": {"question": "Who?", "thoughts": "It is Ana.", "answer": "Ana"}, "label": "yes"}


def run(emend: Callable[..., Any], spec: str) -> None:
    emend(*RUN, "--model", spec, "--max-calls", "12")
    emend("resume", "run", "--max-calls", "1000")
    case = _first_case(Path("run"))
    for words in (("report", "run"), ("report", "run", "--json"), ("trace", "run"), ("trace", "run", case, "--json")):
        assert emend(*words) == 0
    assert emend("trace", "run", case, "--md", "--out", "case.md") == 0
    assert emend("report", "run", "--svg", "table.svg") == 0


def _first_case(folder: Path) -> str:
    """Id of the case that was asked first: where an error ends the run at once, it may be any."""
    lines = (line for name in (RECORDS, ERRORS) for line in (folder / name).read_text("utf-8").splitlines())
    return str(json.loads(next(lines))["case"])


def ask(emend: Callable[..., Any], spec: str) -> None:
    for editor in ("rag", "agent", "serac"):
        second = ("--set", f"serac.counterfactual={spec}") if editor == "serac" else ()
        for more in (("--trace",), ("--json", "--trace")):
            emend("ask", "--memory", "memory", "--editor", editor, *second, "--model", spec, *more, "Where is Vouna?")


def extract(emend: Callable[..., Any], spec: str) -> None:
    words = ("extract", "--benchmark", "tinyworld", "--limit", "3", "--embedding", "lexical", "--method", "llm")
    emend(*words, "--model", spec, "--judge", spec, "--out", "triplets.jsonl")
    emend(*words, "--model", spec, "--judge", spec, "--out", "triplets.jsonl", "--json")


def judge_run(emend: Callable[..., Any], spec: str) -> None:
    emend("judge", "run", "elken", "--judge", spec, "--kind", "equivalence", "--kind", "tendency", "--cache", "replies")
    emend("report", "elken")
    emend("trace", "elken", "1", "--json")


def judge_measured(emend: Callable[..., Any], spec: str) -> None:
    Path("labels.jsonl").write_text(json.dumps(LABEL) + "\n", encoding="utf-8")
    emend("judge", "calibrate", "labels.jsonl", "--judge", spec)
    for more in ((), ("--json",)):
        emend("judge", "stress", "--judge", spec, "--kind", "coherence", *more)


def doctor(emend: Callable[..., Any], spec: str) -> None:
    emend("doctor", "--model", spec)
    emend("doctor", "--model", spec, "--json")


COMMANDS = (run, ask, extract, judge_run, judge_measured, doctor)
CHAT = [(command, place, "chat") for command in COMMANDS for place in PLACES]
ANTHROPIC = [(ask, place, "anthropic") for place in PLACES if place not in ("usage", "no choices")]
OTHERS = [*ANTHROPIC, (run, "text", "anthropic"), (run, "text", "responses"), (run, "refusal", "responses")]
QUICK = ((judge_run, "text"), (extract, "text"), (ask, "page"), (judge_measured, "400"), (run, "header"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "place", "protocol"),
    mostly_slow([*CHAT, *OTHERS], *((*pair, "chat") for pair in QUICK)),
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_key_that_a_server_repeats_is_written_and_shown_by_no_command(
    command, place, protocol, emend, elken, memory, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr(Backoff, "wait", lambda self, state: 0.001)
    monkeypatch.setattr(Backoff, "stop", lambda self, state: state.attempt_number >= 2)
    monkeypatch.setattr(RateLimiter, "slow_down", lambda *_: None)
    printed: list[str] = []

    def call(*words: str) -> Any:
        more = ("--set", "model.use_responses_api=true") if protocol == "responses" and words[0] == "run" else ()
        output = emend(*words, *more)
        printed.extend((output.out, output.err))
        return output.code

    with Provider(PLACES[place]) as provider:
        command(call, provider.spec(protocol))
    sent = [
        str(request.headers.get("authorization", request.headers.get("x-api-key"))) for request in provider.requests
    ]
    assert sent and all(KEY in header for header in sent)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(printed) and "Traceback" not in "".join(printed)
    if place == "text" and command is not judge_measured:  # it did come, and is shown by its name
        assert "_API_KEY>" in "".join(printed) or b"_API_KEY>" in b"".join(files.values())
    for form in FORMS:
        assert form not in "".join(printed)
        assert not [path.name for path, content in files.items() if form.encode() in content]


@pytest.mark.slow
@pytest.mark.parametrize("collector", [{}, {"status": 401}, {"status": 307, "location": f"http://127.0.0.1:9/?{KEY}"}])
def test_a_trace_that_is_sent_holds_no_key_and_none_that_a_collector_repeats_is_shown(collector, emend, monkeypatch):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra 'otel' is not installed")
    from tests.evals.collector import Collector

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={quote(HEADER, safe='')}")
    with Provider(spoken) as provider:
        emend(*RUN, "--model", provider.spec("chat"))
    with Collector(reply=f"refused: {ECHO} {HEADER} {quote(HEADER, safe='')}", **collector) as opened:
        output = emend("trace", "run", "--otlp", opened.address, "--include-content")
    assert output.code == (2 if collector else 0) and opened.requests[0][1]["api-key"] == HEADER
    sent = b"".join(span.SerializeToString() for span in opened.spans.values()).decode(errors="replace")
    assert collector or "<OPENAI_API_KEY>" in sent
    for form in (*FORMS, HEADER, quote(HEADER, safe="")):
        assert form not in sent + output.out + output.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        *(
            (("--model", NOBODY, "--set", f"model.{setting}"), "may contain a key")
            for setting in (
                f"api_key={LEAK}",
                f"openai_api_key={LEAK}",
                f"api-key={LEAK}",
                f'default_headers={{"x-api-key":"{LEAK}"}}',
                f'model_kwargs={{"extra_headers":{{"Authorization":"{LEAK}"}}}}',
                f'default_query={{"key":"{LEAK}"}}',
                f"openai_proxy=http://u:{LEAK}@127.0.0.1",
            )
        ),
        (("--model", f"{NOBODY}?api_key={LEAK}"), "has a query, which would be stored with the run"),
        (("--model", NOBODY, "--set", "model.temprature=1"), "unknown setting 'temprature'"),
    ],
)
def test_a_key_on_the_command_line_is_refused_and_written_nowhere(words, problem, emend, keys, tmp_path):
    output = emend(*RUN, *words)
    assert output.code == 2 and problem in output.err and LEAK not in output.out + output.err
    assert "UserWarning" not in output.err
    assert not any(LEAK.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_key_among_a_judge_s_settings_is_refused_and_what_only_sounds_like_one_is_taken(emend):
    output = emend("judge", "run", ".", "--judge", "openai:m", "--set", f"judge.openai_api_key={LEAK}")
    assert output.code == 2 and "--set judge.openai_api_key may contain a key" in output.err and LEAK not in output.err
    refuse_secrets({"max_tokens": 5, "model_kwargs": {"prompt_cache_key": "a"}, "keep_mb": 1}, "model")
