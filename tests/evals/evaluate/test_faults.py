"""Runs of graph editors against providers that fail: every case ends scored, unscored with a reason, or failed.

EMEND_FAULTS=1 also strikes a case once for every editor and protocol; usually each editor has one protocol.
"""

import os
import threading
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.jobs.results import Summary
from emend.evals.log.lines import ERRORS, EVENTS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from scripts.benchmarks.storm import KINDS, compare, evaluate, leaks, mixed
from tests.evals.toys import BENCHMARK
from tests.params import mostly_slow
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.outcomes import OUTCOMES
from tests.provider.protocols import Asked
from tests.provider.server import FAULTS, Provider
from tests.provider.speaking import believes, place_of

METHODS: dict[str, dict[str, Any]] = {"rag": {}, "mello": {}, "crag": {"evaluator": "model", "k": 1}, "agent": {}}
"""Editors with their settings."""
SERVERS: dict[str, tuple[str, bool]] = {
    "chat": ("chat", True),
    "responses": ("responses", True),
    "anthropic": ("anthropic", True),
    "compatible": ("chat", False),
}
"""The protocol that a server speaks, and whether it knows schemas; `compatible` is what many serve open models with."""
PROMPT = tuple(fault for fault in FAULTS if fault not in ("hang", "401"))
"""Faults without a wait, but for a refused key, which ends the run: see test_providers."""
ALL = bool(os.environ.get("EMEND_FAULTS"))


pytestmark = pytest.mark.usefixtures("keys")


class Ended:
    """A run folder after a run, with what became of each unit."""

    def __init__(self, provider: Provider, server: str, method: str, folder: Path) -> None:
        self.provider, self.server, self.method, self.folder = provider, server, method, folder

    def run(self, cases: int, timeout: float = 30.0, tries: int = 3) -> Summary:
        """Run it, or finish it."""
        protocol = SERVERS[self.server][0]
        config = RunConfig(
            benchmark=BENCHMARK,
            editors=(self.method,),
            embedding="lexical",
            retriever="bm25",
            model=self.provider.spec(protocol),
            mode="all",
            benchmark_options={"cases": str(cases), "probes": "0", "scorer": "exact_match"},
            overrides={self.method: METHODS[self.method]} if METHODS[self.method] else {},
            fail_on_error="false",
        )
        before, policy = self.provider.count, quick_policy()
        summary = run(config, self.folder, model=asked_model(self.provider, protocol, policy, timeout=timeout))
        assert policy.ledger.total().requests == self.provider.count - before
        assert sum(usage.requests for usage in Manifest.read(self.folder).spent.values()) == self.provider.count
        return summary

    def outcomes(self) -> dict[str, str]:
        """By case: `right`, `wrong`, the class of the error that it failed with, or why it is unscored."""
        records = list(read_records(self.folder))
        done = Counter(record.case for record in records)
        scored = {1.0: "right", 0.0: "wrong"}
        by_name = {r.case: scored[r.values["em"]] if "em" in r.values else r.unscored["em"] for r in records}
        failed = {line["case"]: line for line in read_lines(self.folder, ERRORS) if line["case"] not in done}
        assert all(count == 1 for count in done.values())
        assert all(line["message"] and line["steps"][-1]["error"] for line in failed.values())
        ends = {line["case"]: line for line in read_lines(self.folder, EVENTS) if "unit" in line}
        assert all(bool(ends[case]["error"]) == (how not in ("right", "wrong")) for case, how in by_name.items())
        return by_name | {case: line["error"] for case, line in failed.items()}


class Strike:
    """Fault n strikes case n at every call; the cases after these meet one fault each, at their first call alone.

    Args:
        faults: the faults, by place.
        once: those that also strike a case once.
    """

    def __init__(self, faults: tuple[str, ...], once: tuple[str, ...]) -> None:
        self.faults, self.once, self.met = faults, once, Counter[int]()
        self._lock = threading.Lock()

    @property
    def cases(self) -> int:
        """How many cases there are, with two that meet nothing."""
        return len(self.faults) + len(self.once) + 2

    def __call__(self, asked: Asked) -> str:
        place = place_of(asked)
        with self._lock:
            self.met[place] += 1
            if place < len(self.faults):
                return self.faults[place]
            later = place - len(self.faults)
            return self.once[later] if later < len(self.once) and self.met[place] == 1 else ""


BEGINS_AGAIN = {"mello": "right", "agent": "wrong"}
"""What becomes of a case whose first reply alone cannot be read: mello takes its second form, the agent no more tools,
so that it has not seen the facts.
"""


def expected(fault: str, method: str, once: bool) -> tuple[str, ...]:
    """What may become of a case that meets the fault."""
    schema = method == "crag"  # its first call asks for a schema, and is made again when the reply cannot be read
    if fault == "wrong_schema":
        if method == "mello":  # asked under the facts in the end, where such a reply is an answer
            return ("right",) if once else ("wrong", "unscored")
        return ("unscored",) if schema and not once else ("right",) if schema else ("wrong",)
    error, passing = OUTCOMES[fault]
    if once and fault in ("length", "empty") and method in BEGINS_AGAIN:
        return (BEGINS_AGAIN[method],)
    if once and (passing or (schema and fault == "empty")):
        return ("right",)
    if once and schema and fault == "no-schema":
        return ("right", error.__name__)  # it is made again in text, unless that is how this was made
    return ("unscored",) if fault in ("overflow", "length", "refusal", "empty") else (error.__name__,)


EACH = list(product(METHODS, SERVERS))
ONCE = EACH if ALL else list(zip(METHODS, SERVERS, strict=True))
"""Every editor with every server; or each of them once."""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "server"), EACH)
def test_each_fault_ends_a_case_as_it_should_and_resuming_asks_again_what_failed(method, server, tmp_path):
    strike = Strike(PROMPT, PROMPT if (method, server) in ONCE else ())
    with Provider(believes, strike=strike, structured=SERVERS[server][1]) as provider:
        run_of = Ended(provider, server, method, tmp_path / "run")
        summary = run_of.run(strike.cases)
        result, order = run_of.outcomes(), order_of(run_of.folder)
        assert (summary.units, len(result), summary.finished + summary.failed) == (strike.cases,) * 3
        for place, case in enumerate(order):
            fault = (*strike.faults, *strike.once, "", "")[place]
            may = expected(fault, method, place >= len(PROMPT)) if fault else ("right",)
            ended = result[case] if result[case] in ("right", "wrong") or " " not in result[case] else "unscored"
            assert ended in may, (fault, place, result[case])
        failed = [case for case, how in result.items() if case not in scored_or_not(run_of.folder)]
        provider.strike, before = lambda asked: "", provider.count
        again = run_of.run(strike.cases)
    assert (again.skipped, again.finished, again.failed) == (strike.cases - len(failed), len(failed), 0)
    assert failed and provider.count - before <= 4 * len(failed)
    assert {run_of.outcomes()[case] for case in failed} == {"right"}


def order_of(folder: Path) -> list[str]:
    """The ids of the cases in the order of the benchmark."""
    return [line["case"] for line in read_lines(folder, "cases.jsonl")]


def scored_or_not(folder: Path) -> set[str]:
    """The cases that have a record."""
    return {record.case for record in read_records(folder)}


@pytest.mark.parametrize(("method", "server"), mostly_slow(ONCE, ("rag", "chat")))
def test_a_provider_that_hangs_is_given_up_and_asked_again(method, server, tmp_path):
    strike = Strike(("hang",), ("hang",))
    with Provider(believes, strike=strike, structured=SERVERS[server][1]) as provider:
        run_of = Ended(provider, server, method, tmp_path / "run")
        summary = run_of.run(2, timeout=1.0)
        first, second = (run_of.outcomes()[case] for case in order_of(run_of.folder))
        assert (first, second, summary.failed) == ("ModelUnreachable", "right", 1)
        provider.strike = lambda asked: ""
        assert run_of.run(2).failed == 0
    assert set(run_of.outcomes().values()) == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", mostly_slow(PROTOCOLS, "chat"))
def test_a_storm_of_all_kinds_of_faults_loses_doubles_and_falsifies_nothing(protocol, tmp_path):
    calm, _ = evaluate(tmp_path / "calm", protocol, 2, lambda number: "")
    stormy, met = evaluate(tmp_path / "storm", protocol, 2, mixed(KINDS, 0.6, seed=3))
    outcome = compare(calm, stormy)
    assert (outcome["lost"], outcome["doubled"], outcome["wrong"]) == (0, 0, 0) and outcome["same"] >= 4
    assert len(met) > 8 and not leaks(tmp_path)
