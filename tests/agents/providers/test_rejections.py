"""What providers said in public threads: its meaning, the calls that it costs, and what a resume does."""

import csv
import time
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.errors.conversion import as_model_error
from emend.agents.providers.errors.rejection import retry_after
from emend.memory.errors import (
    AccessBlocked,
    BadGeneration,
    ContextOverflow,
    KeyRefused,
    ModelError,
    ModelReplyError,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
    ReplyRefused,
    RequestRefused,
    UnclearRejection,
)
from tests.agents.providers.test_errors import APIStatusError
from tests.provider.models import asked_model
from tests.provider.protocols import Raw
from tests.provider.rejections import COLUMNS, REJECTIONS, measured_row, replay
from tests.provider.server import Provider

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "models.md"
TABLE = DOCS.parents[1] / "benchmarks" / "rejections.csv"
FIRST_OF_EACH = list({row["error"]: row for row in reversed(REJECTIONS)}.values())
FEW_CALLS = {"BadGeneration": (2, 0, 0), "UnclearRejection": (1, 1, 0)}
UNSCORED = {"ContextOverflow", "ReplyRefused"}


@pytest.mark.parametrize("row", REJECTIONS, ids=lambda row: row["id"])
def test_each_body_is_sorted_by_its_meaning_and_shown(row):
    known = as_model_error(APIStatusError(row["status"], row["body"], row.get("headers")), "openai:any")
    # A pause of minutes becomes `ProviderPaused` in the model, which alone knows how long it may wait.
    assert type(known).__name__ == ("RateLimited" if row["id"] == "groq-day" else row["error"])
    assert f"HTTP {row['status']}): " in str(known) and "{'" not in str(known) and "<html" not in str(known)


def read_table() -> list[list[str]]:
    """The rows of the table in the documentation."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    assert tuple(columns) == COLUMNS
    return rows


def test_the_table_has_a_row_for_each_body_with_its_error():
    bodies = [[str(row[name]) for name in ("id", "provider", "status", "error", "source")] for row in REJECTIONS]
    assert [[*cells[:4], cells[-1]] for cells in read_table()] == bodies
    assert f"All {len(REJECTIONS)} error bodies" in DOCS.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("row", FIRST_OF_EACH, ids=lambda row: row["error"])
def test_no_more_calls_are_made_than_can_help(row, tmp_path):
    replayed = replay(row, tmp_path)
    assert type(replayed.error).__name__ == row["error"]
    if row["error"] == "RateLimited":
        assert replayed.calls[0] > 6 and replayed.seconds > 60
    else:
        expected = FEW_CALLS.get(row["error"], (1, 0, 0) if row["error"] in UNSCORED else (1, 1, 1))
        assert replayed.calls == expected and replayed.seconds == 0
        assert measured_row(row, replayed) in read_table()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": {"message": "Invalid 'stop': array too long. Expected at most 4, but got 6."}}, RequestRefused),
        (400, {"error": {"message": "Invalid 'user': string too long, maximum length 64."}}, RequestRefused),
        (422, {"detail": [{"loc": ["body", "top_p"], "msg": "Input should be less than 1"}]}, RequestRefused),
        (422, {"detail": "Unknown field 'seed'."}, RequestRefused),
        (400, {"detail": "Something went wrong."}, UnclearRejection),
        (400, {"error": {"message": "Provider returned error", "code": 400}}, UnclearRejection),
        (418, {"error": "I am a teapot."}, UnclearRejection),
        (403, "", UnclearRejection),
        (403, {"error": {"message": "Request blocked by the firewall."}}, AccessBlocked),
        (400, {"error": {"code": "tool_use_failed", "failed_generation": "too many tokens in context"}}, BadGeneration),
    ],
)
def test_words_of_a_parameter_or_of_the_model_itself_are_no_other_condition(status, body, error):
    known = as_model_error(APIStatusError(status, body), "openai:any")
    assert type(known) is error
    if isinstance(body, dict) and isinstance(body.get("detail"), list):
        assert "body.top_p: Input should be less than" in str(known)


OWN_BODIES: list[tuple[int, Any, type[ModelError]]] = [
    (400, "The input (9120 tokens) is longer than the model's context length (8192 tokens).", ContextOverflow),
    (400, "Your input is too large for this model: 40960 characters, limit 32768", ContextOverflow),
    (400, "The number of input tokens 5210 must not exceed 4096", ContextOverflow),
    (400, "请求内容过长，超出模型最大长度限制", ContextOverflow),
    (400, {"error": "exceeds the available context size"}, ContextOverflow),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", ContextOverflow),
    (413, "Request too large on tokens per minute (TPM): Limit 6000, Requested 7200", ContextOverflow),
    (400, "max_tokens must be less than or equal to 4096", RequestRefused),
    (400, "temperature: must be between 0 and 2", RequestRefused),
    (404, "No endpoints found that support tool use.", RequestRefused),
    (402, "", QuotaExhausted),
    (403, "Your prepayment credits are depleted.", QuotaExhausted),
    (429, "账户余额不足", QuotaExhausted),
    (429, "Monthly usage limit reached. It resets on 2026-12-01.", ProviderPaused),
    (429, "Daily token limit of 100000 exceeded", ProviderPaused),
    (429, "您的请求过于频繁，请稍后再试", RateLimited),
    (429, "Too many concurrent requests", RateLimited),
    (403, "Access from your country is not permitted", AccessBlocked),
    (451, "Unavailable For Legal Reasons", AccessBlocked),
    (400, "API key not valid. Please pass a valid API key.", KeyRefused),
    (403, "Your API key does not have permission to use the specified resource.", KeyRefused),
    (400, {"error": {"code": "data_inspection_failed", "message": "Inappropriate content."}}, ReplyRefused),
    (400, {"error": {"code": "output_parse_failed", "message": "Parsing failed."}}, BadGeneration),
    (529, "Overloaded", ModelUnreachable),
    (408, "Request timeout", ModelUnreachable),
    (400, "Die Anfrage ist falsch", UnclearRejection),
    (403, "Solde insuffisant", UnclearRejection),
]
"""Of no thread, written for this test; a text is the message of an OpenAI-like body."""


@pytest.mark.parametrize(("status", "body", "error"), OWN_BODIES)
def test_wordings_of_no_provider_are_sorted_by_their_meaning_too(status, body, error):
    whole = {"error": {"message": body}} if isinstance(body, str) and not body.startswith("<") else body
    assert type(as_model_error(APIStatusError(status, whole), "openai:any")) is error


WAIT = "Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 80000 seconds before retrying."


@pytest.mark.parametrize(
    ("status", "message", "error", "pause"),
    [
        (429, WAIT, RateLimited, 80_000.0),
        (429, "You are using a Trial key, which is limited to 1000 API calls / month.", ProviderPaused, None),
        (429, "You are using a Trial key, which is limited to 10 API calls / minute.", RateLimited, None),
        (400, "input token count is 32825 but model only supports up to 32768", ContextOverflow, None),
        (400, "'max_tokens' must be at least 1, got -52.", ContextOverflow, None),
        (400, "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens", RequestRefused, None),
        (400, "This model is not available in your region.", AccessBlocked, None),
        (402, "Your account balance is too low. Please top up.", QuotaExhausted, None),
        (429, "You exceeded your current quota, please check your plan and billing details.", QuotaExhausted, None),
        (403, "Your team has used all available credits or reached its monthly spending limit.", QuotaExhausted, None),
        (412, "Account is suspended, possibly due to reaching the monthly spending limit.", QuotaExhausted, None),
        (400, "Access denied, please make sure your account is in good standing. Arrearage", QuotaExhausted, None),
        (400, "The prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow, None),
        (
            400,
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
            ContextOverflow,
            None,
        ),
        (400, "prompt token count of 130000 exceeds the limit of 128000", ContextOverflow, None),
        (400, "Please reduce the length of the messages or completion.", ContextOverflow, None),
        (413, "Request body too large for the model. Max size: 8000 tokens.", ContextOverflow, None),
        (400, "Prompt exceeds max length", ContextOverflow, None),
        (403, "Country, region, or territory not supported", AccessBlocked, None),
        (429, "Too many requests. Please try again in 20s.", RateLimited, 20.0),
        (400, "Range of max_tokens should be [1, 65536]", RequestRefused, None),
    ],
)
def test_wordings_without_a_thread_are_sorted_alike(status, message, error, pause):
    """Bodies as recalled by reviewers; a pause of more than two minutes becomes `ProviderPaused` in the model."""
    raised = APIStatusError(status, {"error": {"message": message}})
    assert type(as_model_error(raised, "openai:any")) is error and retry_after(raised) == pause


@pytest.mark.parametrize(
    ("status", "body"),
    [(402, {"error": {"message": "No."}}), (400, {"error": {"message": "No.", "code": "insufficient_quota"}})],
)
def test_a_status_or_a_code_alone_says_that_an_account_cannot_pay(status, body):
    assert type(as_model_error(APIStatusError(status, body), "openai:any")) is QuotaExhausted


def test_the_time_at_which_a_limit_ends_is_a_pause():
    reset = str(int((time.time() + 3600) * 1000))
    body = {"error": {"message": "Slow.", "metadata": {"headers": {"X-RateLimit-Reset": reset}}}}
    assert retry_after(APIStatusError(429, body)) == pytest.approx(3600, abs=5)


def test_the_models_text_is_kept_where_the_provider_shows_it():
    body = next(row for row in REJECTIONS if row["id"] == "groq-json")["body"]
    known = as_model_error(APIStatusError(400, body), "openai:any")
    assert isinstance(known, ModelReplyError) and known.reply.startswith("```json")


LONG_TEXTS = ["<html>" + "<" * 120_000, "<html>" + "<title" * 20_000, "limit:" + "," * 120_000]


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("text", LONG_TEXTS, ids=lambda text: text[:12])
def test_a_very_long_text_of_an_error_is_read_in_little_time(keys, text, status):
    with Provider(lambda asked: Raw({"error": {"message": text}}, status)) as provider:
        model, begin = asked_model(provider), time.thread_time()
        with pytest.raises(ModelError):
            model.invoke("Where?")
        assert time.thread_time() - begin < 6, "the time grows with the square of the length"


def test_the_reason_at_the_end_of_a_very_long_error_is_read(keys):
    text = f"{'The request was ' * 20_000}. You exceeded the maximum context length of 4,096 tokens."
    with Provider(lambda asked: Raw({"error": {"message": text}}, 400)) as provider:
        with pytest.raises(ContextOverflow):
            asked_model(provider).invoke("Where?")
