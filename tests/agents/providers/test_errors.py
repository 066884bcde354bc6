"""What a provider's words are taken for, in the wordings that providers are known to use."""

import pytest

from emend.agents.providers.errors.conversion import as_model_error
from emend.agents.providers.errors.rejection import BrokenReply, retry_after
from emend.agents.providers.retry_after import LONGEST
from emend.memory.errors import (
    ContextOverflow,
    KeyRefused,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
    ReplyRefused,
    RequestRefused,
)


class APIStatusError(Exception):
    """As clients have it."""

    def __init__(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"Error code: {status} - {body}")
        self.status_code, self.body = status, body
        self.response = type("Response", (), {"headers": headers or {}})()


FULL = ContextOverflow
TPM = "in organization org-x on tokens per min (TPM):"
GROQ = "in organization `org_x` service tier `on_demand` on tokens per minute (TPM):"
GEMINI, GEMINI_MOST = "The input token count", "exceeds the maximum number of tokens allowed"
LIMITS = "You have reached your specified workspace API usage limits."
NO_ROOM = "'max_tokens' is too large: 2. This model's maximum context length is 8192 tokens and your request has"
PLAN = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "body", "headers", "error"),
    [
        (429, {"code": "insufficient_quota", "message": PLAN}, {}, QuotaExhausted),
        (429, {"code": "insufficient_quota", "message": PLAN}, {"retry-after": "1"}, QuotaExhausted),
        (429, {"message": PLAN}, {}, QuotaExhausted),
        (429, {"message": PLAN}, {"retry-after": "20"}, RateLimited),
        (429, [{"error": {"message": f"{PLAN} Please retry in 36s."}}], {}, RateLimited),
        (429, {"code": "rate_limit_exceeded", "message": "Add a payment method: account/billing."}, {}, RateLimited),
        (400, {"message": "Your credit balance is too low."}, {}, QuotaExhausted),
        (400, {"message": "This model's maximum context length is 4096 tokens."}, {}, ContextOverflow),
        (
            400,
            {"message": "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens."},
            {},
            RequestRefused,
        ),
        (400, {"message": "the request exceeds the available context size (8192 tokens), try increasing it"}, {}, FULL),
        (400, {"type": "exceed_context_size_error", "message": "too long"}, {}, FULL),
        (500, {"message": "Context size has been exceeded."}, {}, FULL),
        (400, {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}, {}, FULL),
        (400, [{"error": {"message": f"{GEMINI} (1200000) {GEMINI_MOST} (1048576)."}}], {}, FULL),
        (
            400,
            {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
            {},
            FULL,
        ),
        (400, {"message": "Input length (130 tokens) exceeds the maximum allowed length (124 tokens)."}, {}, FULL),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.", {}, FULL),
        (403, {"message": "Your input was flagged by moderation."}, {}, ReplyRefused),
        (403, {"message": "Not for this key."}, {}, KeyRefused),
        (400, {"error": {"message": "Output blocked by content filtering policy"}}, {}, ReplyRefused),
        (400, {"error": {"message": "You have reached your specified API usage limits. Wait."}}, {}, QuotaExhausted),
        (500, {"message": "tools param requires --jinja flag"}, {}, RequestRefused),
        (429, {"message": f"Request too large for m {TPM} Limit 30000, Requested 41000. Reduce the input."}, {}, FULL),
        (429, {"message": f"Request too large for m {TPM} Limit 30,000, Requested 41,000."}, {}, FULL),
        (429, {"message": f"Request too large for m {TPM} Limit 30000, Requested 22000."}, {}, RateLimited),
        (429, {"message": f"Rate limit reached for m {TPM} Limit 30000, Used 29000, Requested 2000."}, {}, RateLimited),
        (
            429,
            {"message": "Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1."},
            {},
            RateLimited,
        ),
        (413, {"message": f"Request too large for model `m` {GROQ} Limit 6000, Requested 11814, please."}, {}, FULL),
        (413, {"message": f"Rate limit reached {GROQ} Limit 6000, Used 5900, Requested 900, please."}, {}, RateLimited),
        (429, {"code": "429", "message": "Request too large for gpt-4o: the tokens must be reduced."}, {}, FULL),
        (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, {}, FULL),
        (
            429,
            {"message": "This request would exceed your organization's rate limit of 30,000 input tokens per minute."},
            {},
            RateLimited,
        ),
        (
            429,
            {"message": "Requests to the Operation have exceeded token rate limit. Retry after 9 seconds."},
            {},
            RateLimited,
        ),
        (
            400,
            {"error": {"message": f"{LIMITS} You will regain access on 2026-12-01 at 00:00 UTC."}},
            {},
            ProviderPaused,
        ),
        (
            400,
            {"message": f"{LIMITS.replace('workspace ', '')} You will regain access on 2026-12-01."},
            {},
            ProviderPaused,
        ),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, {}, KeyRefused),
        (400, {"message": "Incorrect API key provided: xa***. Get one."}, {}, KeyRefused),
        (400, {"error": {"message": "Content Exists Risk"}}, {}, ReplyRefused),
        (400, {"error": {"code": "invalid_prompt", "message": "Against our usage policy."}}, {}, ReplyRefused),
        (400, {"message": "This model's maximum prompt length is 131072 but the request has more."}, {}, FULL),
        (400, {"message": f"{NO_ROOM} 8200 input tokens (2 > 8192 - 8200)."}, {}, FULL),
        (400, {"message": f"{NO_ROOM} 8192 input tokens (2 > 8192 - 8192)."}, {}, FULL),
        (400, {"message": f"{NO_ROOM} 8191 input tokens (2 > 8192 - 8191)."}, {}, RequestRefused),
        (410, {"message": "The model m was retired"}, {}, RequestRefused),
        (502, {"message": "no answer: is the context size has been exceeded?"}, {}, ModelUnreachable),
    ],
)
def test_a_rejection_is_sorted_by_what_helps_against_it(status, body, headers, error):
    known = as_model_error(APIStatusError(status, body, headers), "openai:any")
    assert type(known) is error
    said = body[0] if isinstance(body, list) else body
    inner = said.get("error", said) if isinstance(said, dict) else said
    text = inner["message"] if isinstance(inner, dict) else inner
    assert text.rstrip(".") in str(known) and "{" not in str(known)


@pytest.mark.parametrize("text", ['{"error": {"code": "x1", "message": "No more."}}', ' [{"message": "No more."}]'])
def test_json_in_the_text_of_a_message_is_read(text):
    """Gateways pass on the provider's body as a text."""
    shown = str(as_model_error(APIStatusError(429, {"message": text}), "openai:any"))
    assert "no more" in shown.lower() and "{" not in shown and '"message"' not in shown


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError({"message": "Slow down.", "code": 429}), RateLimited),
        (ValueError({"message": "No such key.", "code": 401}), KeyRefused),
        (ValueError({"message": "Overloaded."}), ModelUnreachable),
        (TypeError("'NoneType' object is not iterable"), ModelUnreachable),
    ],
)
def test_an_error_with_status_200_is_what_its_body_says(raised, error):
    assert type(as_model_error(BrokenReply(raised), "openai:any")) is error


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        ({"message": "Limit 3, Used 3. Please try again in 20s. Visit the page."}, {}, 20.0),
        ({"message": "Please try again in 7m12s."}, {}, 432.0),
        ({"message": "Please try again in 350ms."}, {}, 0.35),
        ({"message": "Please try again in 1h0m2.5s."}, {}, 3602.5),
        ({"message": "Please retry after 5 seconds."}, {}, 5.0),
        ([{"error": {"message": "Please retry in 34.07s.", "details": [{"retryDelay": "34s"}]}}], {}, 34.07),
        ([{"error": {"message": "Slow down.", "details": [{"retryDelay": "34s"}]}}], {}, 34.0),
        ({"message": "Please try again in 20s."}, {"retry-after": "3"}, 3.0),
        ({"message": "Please try again in 20s."}, {"retry-after": "soon"}, 20.0),
        ({"message": "Wait."}, {"retry-after": "inf"}, None),
        ({"message": "Wait."}, {"retry-after": "1e400"}, None),
        ({"message": "Wait."}, {"retry-after": "nan"}, None),
        ({"message": "Wait."}, {"retry-after": "-5"}, None),
        ({"message": "Wait."}, {"retry-after": "86400"}, 86400.0),
        ({"message": "Wait."}, {"retry-after-ms": "350"}, 0.35),
        ({"message": "Wait."}, {"retry-after-ms": "inf"}, None),
        ({"message": "Wait."}, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"message": "Wait."}, {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST),
        ({"message": "Wait."}, {"retry-after": "31536000"}, LONGEST),
        ({"message": f"Please try again in {'9' * 400}s."}, {}, None),
        ({"message": "Please try again in 5 models' time."}, {}, None),
        ({"message": "Too many requests."}, {}, None),
    ],
)
def test_a_pause_is_parsed_from_a_header_or_from_the_text(body, headers, seconds):
    assert retry_after(APIStatusError(429, body, headers)) == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("said", "error"),
    [("prompt is too long", ContextOverflow), ("Output blocked by content filtering policy", ReplyRefused)],
)
def test_an_error_within_a_stream_has_no_status_and_is_sorted_by_its_words(said, error):
    assert type(as_model_error(BrokenReply(ValueError({"message": said})), "openai:any")) is error
