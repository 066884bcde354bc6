"""Every benchmark of Emend keeps the contract, and the contract catches benchmarks that do not."""

from itertools import chain
from typing import Any

import pytest

from emend.evals.data.benchmarks.conformance import BenchmarkContract
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.tinyworld import TinyWorld
from emend.memory.errors import BadSettings
from tests.paths import DATA

BENCHMARKS_WITH_OPTIONS = [
    *((name, {"source": "tinyworld"} if name == "knowledge" else {}) for name in BENCHMARKS.names()),
    ("akew", {"dataset": "counterfact"}),
    ("akew", {"dataset": "wiki_update"}),
    ("elken", {"blocks": "fact,tendency_m,tendency_g"}),
    ("counterfact", {"dataset": "flat", "generation": "0"}),
    ("recoe", {"prompting": "cot"}),
    ("tinyworld", {"split": "seen"}),
]
SETTINGS = {"docter": ("doc", "gold"), "counterfact": ("triplet",)}
"""Settings that need no further blocks or files."""


class TestEveryBenchmark(BenchmarkContract):
    @pytest.fixture(autouse=True, params=BENCHMARKS_WITH_OPTIONS, ids=str)
    def _named(self, request):
        self.name, self.chosen = request.param

    def options(self):
        return self.chosen

    def factory(self):
        return BENCHMARKS.load(self.name)

    def settings(self):
        texts = self.chosen.get("dataset") == "counterfact"  # a case of `extract` has no triplet
        return ("struct", "unstruct") if texts else SETTINGS.get(self.name) or super().settings()

    def test_cases_have_edits_and_probes_with_gold_answers(self):
        if self.name == "knowledge":
            pytest.skip("asks about the facts of another benchmark before any edit")
        super().test_cases_have_edits_and_probes_with_gold_answers()

    def data(self):
        return None if self.name in ("tinyworld", "knowledge") else DATA / self.name


class Unstable(TinyWorld):
    """Other cases at every call."""

    calls = 0

    def cases(self, setting, limit=None, seed=0):
        Unstable.calls += 1
        return super().cases(setting, limit, seed + Unstable.calls)


class Unlimited(TinyWorld):
    def cases(self, setting, limit=None, seed=0):
        return super().cases(setting, None, seed)


class Doubled(TinyWorld):
    def cases(self, setting, limit=None, seed=0):
        return chain.from_iterable((case, case) for case in super().cases(setting, limit, seed))


class Leaking(TinyWorld):
    def demonstrations(self, setting, seed=0):
        demonstrations = list(super().demonstrations(setting, seed))
        fact = next(self.cases(setting, 1, seed)).edits[0].text
        return [demonstrations[0].model_copy(update={"fact": fact}), *demonstrations[1:]]


class Stray(TinyWorld):
    def cases(self, setting, limit=None, seed=0):
        for case in super().cases(setting, limit, seed):
            probes = tuple(probe.model_copy(update={"edit_ids": ("elsewhere",)}) for probe in case.probes)
            yield case.model_copy(update={"probes": probes})


class Unasked(TinyWorld):
    def cases(self, setting, limit=None, seed=0):
        return (case.model_copy(update={"probes": ()}) for case in super().cases(setting, limit, seed))


class Wordless(TinyWorld):
    wording = "no_such_template"


@pytest.mark.parametrize(
    ("benchmark", "test"),
    [
        (Unstable, "test_the_same_seed_gives_the_same_cases"),
        (Unlimited, "test_limit_bounds_the_number_of_cases"),
        (Doubled, "test_ids_are_unique_and_probes_name_edits_of_their_case"),
        (Leaking, "test_demonstrations_state_no_tested_fact"),
        (Stray, "test_ids_are_unique_and_probes_name_edits_of_their_case"),
        (Unasked, "test_cases_have_edits_and_probes_with_gold_answers"),
        (Wordless, "test_it_says_what_it_is"),
    ],
)
def test_the_contract_catches_what_is_broken(benchmark: Any, test: str):
    class Contract(BenchmarkContract):
        def factory(self):
            return benchmark

        def settings(self):
            return ("triplet",)

    with pytest.raises((AssertionError, BadSettings)):
        getattr(Contract(), test)()
