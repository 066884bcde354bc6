"""Models of a test provider, asked with short waits, for tests that have nothing to wait for."""

from typing import Any

import pytest

from emend.agents.llm import load_model
from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.policy import Backoff, CallPolicy
from tests.provider.server import Provider

PROTOCOLS: dict[str, dict[str, Any]] = {"chat": {}, "responses": {"use_responses_api": True}, "anthropic": {}}
QUICK = Backoff(attempts=3, first=0.01, longest=0.02, total=2.0, rate_limited=0.0)
PLENTY = 60_000.0
"""Calls per minute: a slowed down limiter still lets a hundred a second through."""


def quick_policy(**more: Any) -> CallPolicy:
    """Waits of hundredths of a second."""
    settings: dict[str, Any] = {"backoff": QUICK, "rpm": PLENTY}
    return CallPolicy(**settings | more)


def asked_model(
    provider: Provider,
    protocol: str = "chat",
    policy: CallPolicy | None = None,
    name: str = "any-model",
    streaming: bool = False,
    **settings: Any,
) -> ProviderChatModel:
    """The provider's model through the real client of that protocol; a test without the client is skipped."""
    package = "anthropic" if protocol == "anthropic" else "openai"
    pytest.importorskip(f"langchain_{package}", reason=f"the extra '{package}' is not installed")
    chosen = PROTOCOLS[protocol] | ({"streaming": True} if streaming else {}) | {"timeout": 20.0} | settings
    model = load_model(provider.spec(protocol, name), policy or quick_policy(), **chosen)
    assert isinstance(model, ProviderChatModel)
    return model
