"""Rarer faults over the real clients: what becomes of the call, within its bounds, and where the key is repeated."""

import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from emend.agents.parsing.messages import answer_text
from emend.agents.providers.chat_model import ProviderChatModel
from emend.memory.errors import BadSettings, ModelError, ModelReplyError, ModelUnreachable, ProviderPaused
from tests.params import mostly_slow
from tests.provider.models import PROTOCOLS, QUICK, asked_model, quick_policy
from tests.provider.odd_faults import ODD_FAULTS, OddFault, written
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("keys")
BOUNDS: dict[str, Any] = {"deadline": 0.8, "reply_mb": 1, "timeout": 0.5}
PATIENT = BOUNDS | {"deadline": 20, "timeout": 20}  # so that a busy machine's reply is not asked for again
KEY = "sk-planted-0123456789"  # of the fixture `keys`


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", mostly_slow(ODD_FAULTS, *list(ODD_FAULTS)[::4]))
def test_a_fault_becomes_what_it_should(fault, protocol):
    becomes = ODD_FAULTS[fault].becomes
    with Provider(lambda asked: "Ostrim", choose=lambda number: fault) as provider:
        bounds = BOUNDS if becomes == "tried again" else PATIENT
        model = asked_model(provider, protocol, **bounds)
        start = time.monotonic()
        if becomes == "the same":
            message = model.invoke("Where?")
            assert str(message.text).rpartition("</think>")[2] == "Ostrim"
            assert bool(message.usage_metadata) is not fault.startswith("usage")
            assert not message.tool_calls
        else:
            with pytest.raises(ModelError) as caught:
                answer_text(model.invoke("Where?"))
            assert isinstance(caught.value, ProviderPaused) == fault.endswith(("-day", "-year", "-year-9999"))
            assert KEY not in str(caught.value)
            assert fault == "thoughts" or provider.spec(protocol) in str(caught.value)
        assert time.monotonic() - start < 30
        if becomes in ("failed", "the end", "the same"):
            assert provider.count == 1
        elif becomes == "unscored" and fault != "413":
            assert isinstance(caught.value, ModelReplyError)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["bomb", "huge"])
def test_a_reply_of_fifty_megabytes_takes_little_memory(fault):
    with Provider(lambda asked: "Ostrim", choose=lambda number: fault) as provider:
        models = [asked_model(provider, policy=quick_policy(backoff=replace(QUICK, attempts=1))) for _ in range(4)]
        ask(models[0])  # the server makes its bomb
        tracemalloc.start()
        try:
            threads = [threading.Thread(target=ask, args=[model]) for model in models]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            assert tracemalloc.get_traced_memory()[1] < 100_000_000
        finally:
            tracemalloc.stop()


def ask(model: ProviderChatModel) -> None:
    with pytest.raises(ModelUnreachable, match="the reply is larger than 8 MB"):
        model.invoke("Where?")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_streamed_reply_that_drips_ends_at_the_deadline(protocol):
    drip = written(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", *[b": \n"] * 1000, seconds=0.1)
    with Provider(choose=lambda number: "drip") as provider, patched("drip", drip):
        start = time.monotonic()
        with pytest.raises(ModelUnreachable, match="no complete reply within the deadline of 0.8 s"):
            asked_model(provider, protocol, streaming=True, **BOUNDS).invoke("Where?")
    assert time.monotonic() - start < 30


@contextmanager
def patched(fault: str, act: Any) -> Iterator[None]:
    before, ODD_FAULTS[fault] = ODD_FAULTS[fault], OddFault(act, "tried again")
    yield
    ODD_FAULTS[fault] = before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_streamed_usage_that_is_no_number_is_unknown(protocol):
    with Provider(lambda asked: "Ostrim") as provider, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.provider.protocols.words", lambda text: 0.5)
        patch.setattr("tests.provider.protocols._size", lambda said: -1)
        message = asked_model(provider, protocol, streaming=True).invoke("Where?")
    assert (message.text, message.usage_metadata) == ("Ostrim", None)


def test_half_characters_are_replaced_and_said(caplog):
    with Provider(lambda asked: "Ostr\ud800im \ud83d\ude00") as provider:
        message = asked_model(provider).invoke("Where?")
    assert "half surrogate pairs are replaced" in caplog.text
    assert message.text == "Ostr\ufffdim \U0001f600" and str(message.text).encode()


def test_a_wait_is_announced_with_status_provider_and_number():
    waits: list[str] = []
    policy = quick_policy()
    policy.on_wait = lambda seconds, reason: waits.append(reason)
    with Provider(lambda asked: "Ostrim", faults=["429-short", "closed"]) as provider:
        asked_model(provider, policy=policy).invoke("Where?")
    assert waits[0] == "429 from openai, waiting 0.1 s, attempt 1"
    assert waits[1].startswith("no answer from openai, waiting 0.") and waits[1].endswith(" s, attempt 2")


@pytest.mark.parametrize(("setting", "value"), [("deadline", 0), ("deadline", "soon"), ("reply_mb", -1)])
def test_an_impossible_bound_is_refused(setting, value):
    with Provider() as provider, pytest.raises(BadSettings, match=f"'{setting}' is {value!r}: give a number"):
        asked_model(provider, **{setting: value})
