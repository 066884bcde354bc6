"""Contract of benchmarks as a test class that authors of plug-ins can subclass."""

# ruff: noqa: D102  (the name of a test describes it)

import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from emend.agents.roles.answer import find_wording
from emend.evals.case import Benchmark, Case
from emend.evals.metrics.scoring.registry import check_scorers
from emend.memory.errors import BadSettings

# Scorers that only compare an answer with the unedited model's, without a gold answer.
COMPARED = frozenset({"agreement", "partial_same", "same_tokens", "likely_same"})
# Number of cases to read from each setting.
CASES = 6


class BenchmarkContract:
    """Tests that pytest collects from a subclass named `Test...`, which defines `factory`.

    A benchmark that reads files also needs `data`, a folder with at least two cases of each
    setting.

    Example:
        class TestMine(BenchmarkContract):
            def factory(self) -> Callable[..., Benchmark]:
                return MyBenchmark
    """

    def factory(self) -> Callable[..., Benchmark]:
        """Return the benchmark factory under test, as it would be registered."""
        raise NotImplementedError("return the factory (data, options) -> Benchmark to be tested")

    def data(self) -> Path | None:
        """Return the folder of the benchmark's files; None if it reads none."""
        return None

    def options(self) -> dict[str, str]:
        """Return options of the benchmark."""
        return {}

    def benchmark(self) -> Benchmark:
        """Return a new benchmark."""
        return self.factory()(self.data(), self.options())

    def settings(self) -> Sequence[str]:
        """Return the settings under test; by default all."""
        return self.benchmark().settings

    def read(self, setting: str, limit: int | None = None, seed: int = 0) -> list[Case]:
        """Return the first cases of a setting."""
        return list(islice(self.benchmark().cases(setting, limit, seed), CASES))

    def test_it_says_what_it_is(self) -> None:
        benchmark = self.benchmark()
        assert benchmark.name and benchmark.settings
        assert len(set(benchmark.settings)) == len(benchmark.settings)
        find_wording(benchmark.wording)  # raises if there is no such prompt template
        assert benchmark.mode in ("single", "all", "sequential") or benchmark.mode.startswith(
            "batch"
        )

    def test_cases_have_edits_and_probes_with_gold_answers(self) -> None:
        for setting in self.settings():
            cases = self.read(setting)
            assert cases, f"setting '{setting}' has no case"
            for case in cases:
                assert case.edits and case.probes, f"case {case.id} has no edit, or no probe"
                for probe in case.probes:
                    is_compared = set(probe.scorers) <= COMPARED
                    has_gold = bool(probe.gold and probe.gold[0].strip())
                    assert probe.kind and (has_gold or is_compared), (
                        f"probe {probe.id} has no gold answer"
                    )
                    assert probe.prompt.strip() or probe.query.strip(), (
                        f"probe {probe.id} asks nothing"
                    )

    def test_ids_are_unique_and_probes_name_edits_of_their_case(self) -> None:
        for setting in self.settings():
            cases = self.read(setting)
            assert len({case.id for case in cases}) == len(cases), (
                f"two cases of '{setting}' have one id"
            )
            for case in cases:
                edits = {edit.id for edit in case.edits}
                assert len({probe.id for probe in case.probes}) == len(case.probes), (
                    f"two probes of case {case.id}"
                )
                for probe in case.probes:
                    assert set(probe.edit_ids) <= edits, (
                        f"probe {probe.id} names an edit that its case has not"
                    )

    def test_the_same_seed_gives_the_same_cases(self) -> None:
        for setting in self.settings():
            cases = self.read(setting)
            assert cases == self.read(setting)
            assert cases == [Case.model_validate_json(case.model_dump_json()) for case in cases], (
                "not so in JSON"
            )
            assert self.read(setting, limit=2, seed=3) == self.read(setting, limit=2, seed=3)

    def test_limit_bounds_the_number_of_cases(self) -> None:
        for setting in self.settings():
            for limit in (1, 2):
                assert len(self.read(setting, limit=limit)) == limit

    def test_an_unknown_setting_is_refused(self) -> None:
        with pytest.raises(BadSettings):
            self.read("no such setting")

    def test_an_unknown_option_is_refused(self) -> None:
        with pytest.raises(BadSettings):
            self.factory()(self.data(), self.options() | {"no_such_option": "1"})

    def test_scorers_exist(self) -> None:
        for setting in self.settings():
            for case in self.read(setting):
                for probe in case.probes:
                    check_scorers(probe.scorers)  # raises for one that does not exist

    def test_metrics_have_unique_names_and_kinds(self) -> None:
        metrics = self.benchmark().metrics()
        names = [metric.name for metric in metrics]
        assert metrics and len(set(names)) == len(names), f"metrics {names}"
        assert all(metric.value and metric.kinds for metric in metrics)

    def test_every_kind_of_probe_is_reported(self) -> None:
        reported = {kind for metric in self.benchmark().metrics() for kind in metric.kinds}
        kinds = {
            probe.kind
            for setting in self.settings()
            for case in self.read(setting)
            for probe in case.probes
        }
        assert kinds & reported, f"no metric reports any of {sorted(kinds)}"

    def test_demonstrations_state_no_tested_fact(self) -> None:
        for setting in self.settings():
            benchmark = self.benchmark()
            demonstrations = benchmark.demonstrations(setting)
            assert list(demonstrations) == list(self.benchmark().demonstrations(setting)), (
                "other ones the second time"
            )
            texts = {edit.text for case in self.read(setting) for edit in case.edits}
            assert not texts & {demonstration.fact for demonstration in demonstrations}, (
                "one states a tested fact"
            )

    def test_provenance_is_json_after_the_cases_are_read(self) -> None:
        benchmark = self.benchmark()
        list(islice(benchmark.cases(self.settings()[0]), CASES))
        assert json.dumps(benchmark.provenance)
