"""What runs in the process of a `ClientProcess`: the provider's client, asked by as many threads as there are calls."""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from emend.agents.llm import MODELS
from emend.agents.providers.chat_model import asked_once, keys_of
from emend.agents.providers.client_process import read_frame, write_frame
from emend.agents.providers.errors import ClientRaised, as_model_error, retry_after, status_of

THREADS = 1024
Outcome = tuple[AIMessage | None, BaseException | None, BaseException | None]
"""The reply; or the error, and what stands for its cause."""


def serve() -> None:
    """Answers calls from standard input until it closes; whatever prints does so on standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    back = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    first = read_frame(sys.stdin.buffer)
    if first is None:
        return
    spec, settings = pickle.loads(first)  # noqa: S301  from the process that started this one
    provider, _, name = spec.partition(":")
    model = MODELS.load(provider)(name, **settings)
    lock = threading.Lock()

    def tell(number: int, outcome: Outcome | None) -> None:
        told = pickle.dumps((number, outcome, time.process_time()))
        with lock:
            write_frame(back, told)

    def answer(number: int, messages: list[BaseMessage], stop: Sequence[str] | None, more: dict[str, Any]) -> None:
        tell(number, outcome_of(model, spec, messages, stop, more))

    pool = ThreadPoolExecutor(THREADS)
    tell(0, None)
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        pool.submit(answer, *pickle.loads(frame))  # noqa: S301
    os._exit(0)  # nobody waits for what is still under way


def outcome_of(
    model: BaseChatModel, spec: str, messages: list[BaseMessage], stop: Sequence[str] | None, more: dict[str, Any]
) -> Outcome:
    """A call as it went; a client's own exceptions hold connections and cannot be handed on: they are sorted here."""
    try:
        return asked_once(model, messages, stop, None, more), None, None
    except BaseException as error:  # noqa: BLE001  whatever it is, the one who waits has to hear of it
        known = as_model_error(error, spec, *keys_of(model))
        cause = ClientRaised(f"{type(error).__name__}: {error}", status_of(error), retry_after(error))
        return None, known or RuntimeError(str(cause)), cause
