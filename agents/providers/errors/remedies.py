"""Table of error conditions of providers, each with Emend's error class and a remedy."""

from typing import NamedTuple

from emend.memory.errors import (
    AccessBlocked,
    BadGeneration,
    ContextOverflow,
    KeyRefused,
    ModelError,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
    ReplyCutOff,
    ReplyRefused,
    RequestRefused,
    UnclearRejection,
)


class Row(NamedTuple):
    """Row of the table of errors."""

    error: type[ModelError]
    problem: str
    remedy: str


CUT = Row(
    ReplyCutOff,
    "the reply was cut off",
    "Allow more new tokens: --set model.max_tokens=4096 (of a judge: judge.max_tokens=4096).",
)
REFUSED = Row(
    ReplyRefused, "the model declined to answer", "The probe has no answer from this model."
)
BAD_REPLY = Row(
    BadGeneration,
    "the provider rejected the model's own reply",
    "The model twice produced no valid tool call or JSON.",
)
AWAY = Row(
    ModelUnreachable,
    "the provider does not answer",
    "Check the provider and the address, then try again.",
)
LIMITED = Row(
    RateLimited,
    "the provider asks for fewer calls",
    "Lower --concurrency, or give --rpm and --tpm, then try again.",
)
DAILY = Row(
    ProviderPaused,
    "the quota of the day, or of a longer time, is used up",
    "Try again when it resets, or raise it at the provider.",
)
EMPTY = Row(
    QuotaExhausted,
    "the account has no credit left",
    "Add credit at the provider, then try again.",
)
TOO_EXPENSIVE = Row(
    QuotaExhausted,
    "the account's credit does not cover a reply of that length",
    "Allow fewer new tokens, for example --set model.max_tokens=1024, or add credit.",
)
PAUSED = Row(
    ProviderPaused,
    "the account's spending limit is reached",
    "Raise the limit at the provider, or try again after that day.",
)
NO_KEY = Row(
    KeyRefused,
    "the key is not accepted",
    "Check the key in the environment and its permissions.",
)
COUNTRY = Row(
    AccessBlocked,
    "the provider does not serve the country or region that the request comes from",
    "Run from a supported region; the key is not the cause.",
)
BLOCKED = Row(
    AccessBlocked,
    "a firewall or the provider's gateway blocked the request",
    "Check the network, its proxy and the address (PROVIDER:NAME@URL); the key may not be the "
    "cause.",
)
LONG = Row(
    ContextOverflow,
    "the prompt does not fit the model's context window",
    "Take fewer retrieved entries or a model with a longer window.",
)
TOO_LARGE_AT_ONCE = Row(
    ContextOverflow,
    "the request is larger than the account may send at once",
    "Take fewer retrieved entries, allow fewer new tokens (--set model.max_tokens=1024), or "
    "raise the provider's limit.",
)
UNSENT = Row(
    RequestRefused,
    "the request cannot be sent",
    "Check the address (PROVIDER:NAME@URL), the headers and the proxy: nothing was sent over the "
    "network.",
)
TOO_MANY = Row(
    RequestRefused,
    "the request was rejected",
    "Allow fewer new tokens, for example --set model.max_tokens=1024.",
)
NO_MODEL = Row(
    RequestRefused,
    "the request was rejected",
    "Check the model's name and the address (PROVIDER:NAME@URL).",
)
WRONG = Row(
    RequestRefused,
    "the request was rejected",
    "Check the model's name and its settings (--set model.NAME=VALUE; null sends none).",
)
UNCLEAR = Row(
    UnclearRejection,
    "the request was rejected, for an unknown reason",
    "Fix what the provider reports, then try again: the request is sent once more, and its probe "
    "is unscored if it is rejected again.",
)
