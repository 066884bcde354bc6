"""Cases of a run by setting, with probes in the form in which the run asks them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from langchain_core.language_models import BaseChatModel

from emend.agents.scoring import resolve_form
from emend.evals.case import Benchmark, Case, Metric
from emend.evals.config.scoring import WRONG_BEFORE
from emend.evals.evaluate.units import without_repeats
from emend.evals.metrics.headline import text_kinds
from emend.evals.metrics.protocols import form_for, metrics_under, under_protocols
from emend.memory.edit import Edit
from emend.memory.probe import Probe

# Number of cases that `other_edits` and `text_kinds` look at.
FIRST_CASES = 50


@dataclass(frozen=True)
class CaseSource:
    """The benchmark's distinct cases by setting of a run, with probes as the run asks them.

    Attributes:
        benchmark: benchmark that yields the cases.
        name: name of the benchmark in the configuration.
        settings: settings to run.
        limit: number of cases per setting; None for all.
        seed: seed of the sample.
        protocols: protocols by which answers are scored.
        only_wrong_before: whether probes about an edit count only if the unedited model answers
            them wrongly.
        form: configured form of the probes.
        model: the model under test.
        edits_weights: whether one of the editors changes weights.
    """

    benchmark: Benchmark
    name: str
    settings: tuple[str, ...]
    limit: int | None
    seed: int
    protocols: tuple[str, ...]
    only_wrong_before: bool
    form: str | None
    model: BaseChatModel
    edits_weights: bool

    def cases(self, setting: str) -> Iterator[Case]:
        """Yield the cases of a setting, streamed anew at every call."""
        stream = self.benchmark.cases(setting, self.limit, self.seed)
        return without_repeats(self._as_asked(case) for case in stream if case.probes)

    def _as_asked(self, case: Case) -> Case:
        return case.model_copy(update={"probes": tuple(map(self._probe, case.probes))})

    def _probe(self, probe: Probe) -> Probe:
        """Return the probe with the scorers and the form of the run."""
        probe = under_protocols(probe, self.protocols)
        scorers = probe.scorers
        if self.only_wrong_before and probe.edit_ids:
            scorers = (*scorers, WRONG_BEFORE)
        form = resolve_form(self.model, form_for(probe, self.form, self.edits_weights))
        return probe.model_copy(update={"form": form, "scorers": scorers})

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The benchmark's metrics under the run's protocols."""
        return tuple(metrics_under(self.benchmark.metrics(), self.protocols, self.text_kinds))

    @cached_property
    def text_kinds(self) -> tuple[str, ...]:
        """Kinds of probe with texts as right answers, according to the first cases."""
        cases = (
            case for setting in self.settings for case in islice(self.cases(setting), FIRST_CASES)
        )
        return text_kinds(probe for case in cases for probe in case.probes)

    def other_edits(self, setting: str) -> tuple[Edit, ...]:
        """Return the edits of the setting's first cases, with subjects for neighbouring prompts."""
        return tuple(
            edit for case in islice(self.cases(setting), FIRST_CASES) for edit in case.edits
        )

    def names_subjects(self, setting: str) -> bool:
        """Return False if the first edits of the setting have no subject."""
        edits = next((case.edits for case in self.cases(setting) if case.edits), ())
        return not edits or any(edit.subject for edit in edits)
