"""What a provider's words are taken for, in the wordings that providers are known to use."""

import pytest

from emend.agents.taxonomy import BrokenReply, as_model_error
from emend.memory.errors import (
    ContextOverflow,
    KeyRefused,
    ModelUnreachable,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
)


class APIStatusError(Exception):
    """As clients have it."""

    def __init__(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"Error code: {status} - {body}")
        self.status_code, self.body = status, body
        self.response = type("Response", (), {"headers": headers or {}})()


PLAN = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "body", "headers", "error"),
    [
        (429, {"code": "insufficient_quota", "message": PLAN}, {}, QuotaExhausted),
        (429, {"code": "insufficient_quota", "message": PLAN}, {"retry-after": "1"}, QuotaExhausted),
        (429, {"message": PLAN}, {}, QuotaExhausted),
        (429, {"message": PLAN}, {"retry-after": "20"}, RateLimited),
        (429, [{"error": {"message": f"{PLAN} Please retry in 36s."}}], {}, RateLimited),
        (
            429,
            {"code": "rate_limit_exceeded", "message": "Add a payment method: account/billing."},
            {},
            RateLimited,
        ),
        (400, {"message": "Your credit balance is too low."}, {}, QuotaExhausted),
        (400, {"message": "This model's maximum context length is 4096 tokens."}, {}, ContextOverflow),
        (
            400,
            {"message": "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens."},
            {},
            RequestRefused,
        ),
    ],
)
def test_a_rejection_is_sorted_by_what_helps_against_it(status, body, headers, error):
    known = as_model_error(APIStatusError(status, body, headers), "openai:any")
    assert type(known) is error
    if isinstance(body, list):
        assert "Please retry in 36s" in str(known)


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
