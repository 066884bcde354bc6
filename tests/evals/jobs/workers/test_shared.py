"""What workers share: answers of the unedited model are asked for once, turns of calls only where limits need them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.policy import CallPolicy
from emend.evals.jobs.shared_answers import AnswerFile
from emend.evals.jobs.workers.base import Port
from emend.evals.jobs.workers.shared import (
    AnswerClaims,
    RemoteJournal,
    RemoteLedger,
    RemoteLimiter,
    SharedCalls,
    Source,
)
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.records import RunLog, json_line
from emend.memory.errors import BudgetReached, CallDropped
from emend.memory.probe import Answer, Usage

KEY = "0a"
LINE = json_line(BaselineAnswer(key=KEY, probe="p", answer=Answer(text="blue")))
ASK = None
"""The answer to a claim by which a worker asks the model itself."""


class Claims:
    """Claims of workers over a run's answers, and what each worker was told."""

    def __init__(self, log: RunLog, *others: Path) -> None:
        self.told: list[tuple[int, Any]] = []
        self.shared = AnswerClaims(AnswerFile(log, others), lambda source, line, _: self.tell(source, line))

    def tell(self, source: Source, line: Any) -> None:
        self.told.append((source.worker, line))

    def claim(self, *workers: int) -> None:
        for worker in workers:
            self.shared.claim(Source(worker, 1), KEY)


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[Claims]:
    with RunLog(tmp_path) as log:
        yield Claims(log)


def test_the_first_worker_asks_and_all_get_its_answer(claims: Claims) -> None:
    claims.claim(1, 2, 3)
    assert claims.told == [(1, ASK)]
    claims.shared.add(Source(1, None), KEY, LINE, Usage())
    claims.claim(4)
    assert claims.told[1:] == [(2, LINE), (3, LINE), (4, LINE)]


def test_the_next_one_asks_when_the_call_fails_or_its_worker_is_gone(claims: Claims) -> None:
    claims.claim(1, 2, 3, 4)
    claims.shared.abandon(Source(2, None), KEY)  # it does not hold the call
    assert claims.told == [(1, ASK)]
    claims.shared.abandon(Source(1, None), KEY)
    claims.shared.lose(3)
    assert claims.told[1:] == [(2, ASK)]
    claims.shared.lose(2)
    assert claims.told[2:] == [(4, ASK)]


def test_an_answer_of_another_run_is_asked_for_by_no_worker(claims: Claims, tmp_path: Path) -> None:
    claims.shared.add(Source(1, None), KEY, LINE, Usage())
    (tmp_path / "other").mkdir()
    with RunLog(tmp_path / "other") as log:
        other = Claims(log, tmp_path)
        other.claim(1, 2)
    assert other.told == [(1, LINE), (2, LINE)]


def test_a_request_over_an_ended_connection_is_an_error_and_does_not_wait() -> None:
    port = Port()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(port.request, "claim", KEY)
        assert port.take(60) == [("claim", 0, KEY)]
        port.close()
        for request in (waiting, pool.submit(port.request, "claim", KEY)):
            with pytest.raises(CallDropped, match="will be made on resume"):
                request.result(60)
        port.answer(0, LINE, None)  # too late, and nobody waits
    assert port.take(60) is None


def test_a_worker_goes_on_with_a_reply_only_when_the_driver_has_it() -> None:
    port = Port()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(RemoteJournal(port, replays=False).write, "unit/call/1", "{}")
        assert port.take(60) == [("add_reply", 0, "unit/call/1", "{}")]
        assert not waiting.done()
        port.answer(0, None, None)
        waiting.result(60)


def test_the_result_of_a_call_is_counted_where_the_limits_are() -> None:
    policy = CallPolicy(max_calls=1)
    answers: list[Any] = []
    calls = SharedCalls(policy, lambda source, value, error: answers.append(error), lambda workers, throttles: None)
    calls.start(Source(1, 0), "model", is_retry=False)
    calls.end(Source(1, None), "model", {"input_tokens": 3, "output_tokens": 2}, replied=True)
    spent = policy.ledger.total()
    assert (spent.requests, spent.input_tokens, spent.output_tokens) == (1, 3, 2)
    calls.start(Source(1, 1), "model", is_retry=False)
    assert [type(answer) for answer in answers] == [type(None), BudgetReached]


class RecordingPort(Port):
    """Names what was sent, and answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def send(self, name: str, *values: Any) -> None:
        self.sent.append(name)

    request = send


@pytest.mark.parametrize(
    ("throttles", "rpm", "tpm", "sent"),
    [
        (False, None, None, []),
        (True, None, None, ["turn"]),
        (False, 5.0, None, ["turn"]),
        (False, None, 9.0, ["turn", "correct"]),
    ],
)
def test_a_worker_asks_for_turns_only_where_calls_are_limited(
    throttles: bool, rpm: float | None, tpm: float | None, sent: list[str]
) -> None:
    port = RecordingPort()
    limiter = RemoteLimiter(port, rpm, tpm)
    limiter.throttles = throttles
    limiter.acquire(3)
    limiter.correct(3, 4)
    assert port.sent == sent


@pytest.mark.parametrize("limit", [None, 5])
def test_a_worker_tells_the_driver_of_each_call_and_asks_where_there_is_a_budget(limit: int | None) -> None:
    port = Port()
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(RemoteLedger(port, None, None, limit).start_call, "model", True)
        (message,) = port.take(60) or [()]
        assert message == ("start_call", None if limit is None else 0, "model", True)
        if limit is not None:
            assert not calling.done()
            port.answer(0, None, None)
        calling.result(60)
