"""Job that judges a run's answers, with one unit per call to a judge, and writes to the scoring's
folder.
"""

import shlex
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from emend.agents.judging.base import Item
from emend.agents.providers.policy import CallPolicy
from emend.evals.config.limits import FailureLimit
from emend.evals.jobs.failures import error_text
from emend.evals.jobs.job import JobContext, Lane, UnitJob
from emend.evals.jobs.line import count_lines
from emend.evals.jobs.results import UnitResult, WorkUnit
from emend.evals.judging.calls import JudgeCall, ask_judge, make_calls
from emend.evals.judging.disputes import EquivalenceScorer
from emend.evals.judging.judgement import JudgementKey
from emend.evals.judging.panel import Panel
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.line import call_labels, judgement_line
from emend.evals.judging.scorings.manifest import JOB, Scoring
from emend.evals.judging.scorings.verdicts import open_disputes, write_own_verdicts
from emend.evals.log.lines import event_of
from emend.memory.edit import content_id

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge


@dataclass(frozen=True)
class JudgeSetup:
    """Judges, models and items of a scoring.

    Attributes:
        run: folder of the judged run.
        scoring: panel and settings.
        judges: judges by kind.
        items: items to judge, by kind.
        models: models by their names in the panel; a second judge without a model is not asked.
        policy: call policy of the models, closed by its creator.
        scorer: scorer that disputes acceptances which it finds impossible.
    """

    run: Path
    scoring: Scoring
    judges: "Mapping[str, Judge]"
    items: Mapping[str, Sequence[Item]]
    models: "Mapping[str, BaseChatModel]"
    policy: CallPolicy
    scorer: EquivalenceScorer | None = None


class JudgeJob(UnitJob):
    """Job that asks the judges of a panel about items, and then the second judges about disputes.

    A unit is a call: a question to one judge about one item, or about several items shown together.
    An unreachable judge therefore does not affect the votes of other judges, and second judges are
    asked within the same scoring.

    Args:
        setup: judges, models and items of the scoring.
        opened: resources to close with the job; None if the caller closes them.
    """

    name: ClassVar[str] = JOB

    def __init__(self, setup: JudgeSetup, opened: ExitStack | None = None) -> None:
        self._opened = opened or ExitStack()
        calling = setup.scoring.calling
        self.setup = setup
        self.policy = setup.policy
        self.failure_limit = FailureLimit.parse(calling.fail_on_error)
        self.concurrency = calling.concurrency
        self.failed, self.first_failure = 0, ""
        """Number of failed calls of this process, and the message of the first one."""
        self._lock = threading.Lock()

    @cached_property
    def judged(self) -> set[JudgementKey]:
        """Keys of the judgements that exist at the start."""
        return self._judged_now()

    def _judged_now(self) -> set[JudgementKey]:
        judgements = read_judgements(self.setup.run, self.setup.scoring)
        return {judgement.key for judgement in judgements}

    @cached_property
    def calls(self) -> list[JudgeCall]:
        """Remaining calls to the judges of the panel."""
        setup = self.setup
        return [
            call
            for kind, judge in setup.judges.items()
            for call in make_calls(setup.scoring.panel, judge, setup.items[kind], self.judged)
        ]

    def prepare(self, folder: Path, finished: Collection[str]) -> Scoring:
        """Write the manifest, with the number of known calls."""
        units = len(finished) + len(self.calls)
        return self.setup.scoring.model_copy(update={"units": units}).written(folder)

    def read_manifest(self, folder: Path) -> Scoring:
        """Read the manifest, to add costs to it."""
        return Scoring.read(folder)

    def lanes(self) -> Iterator[Lane]:
        """Yield a lane for each call, since calls are independent."""
        return self._lanes_of(self.calls)

    def _lanes_of(self, calls: Iterable[JudgeCall]) -> Iterator[Lane]:
        for call in calls:
            labels = call_labels(call.items[0].id, call.spec, call.repeat)
            yield Lane([WorkUnit(self._unit_key(call), call.spec, labels, call)])

    def _unit_key(self, call: JudgeCall) -> str:
        """Return the key of a call, derived from the items and everything that affects the
        judgements.
        """
        scoring, role = self.setup.scoring, call.judge.role
        items = [item.id for item in call.items]
        judge = [call.spec, scoring.fingerprints.get(call.spec), call.repeat, call.swapped]
        return content_id(JOB, scoring.id, call.judge.name, role.prompt_id, items, judge)

    def evaluate(self, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Ask the panel and, if no call failed, the second judges about the open disputes."""
        setup = self.setup
        try:
            super().evaluate(context, pool)
            if self._second.second and not self.failed:
                self.evaluate_lanes(self._lanes_of(list(self._second_calls())), context, pool)
        finally:
            write_own_verdicts(setup.run, setup.scoring, setup.judges)

    @cached_property
    def _second(self) -> Panel:
        """Panel with only those second judges that have a model."""
        panel = self.setup.scoring.panel
        second = tuple(spec for spec in panel.second if spec in self.setup.models)
        return panel.model_copy(update={"second": second})

    def _second_calls(self) -> Iterator[JudgeCall]:
        setup, judged = self.setup, self._judged_now()
        for kind, judge in setup.judges.items():
            disputed = list(open_disputes(setup.run, setup.scoring, kind).values())
            yield from make_calls(self._second, judge, disputed, judged, second=True)

    def evaluate_unit(self, unit: WorkUnit, session: Any, context: JobContext) -> UnitResult:
        """Make a call, and return its judgements as lines and the judge's steps as events."""
        call: JudgeCall = unit.content
        panel = self.setup.scoring.panel
        scorer = self.setup.scorer if call.spec in panel.judges else None
        try:
            judgements = ask_judge(call, self.setup.models[call.spec], panel.retries, scorer)
        except Exception as error:
            self._note(error)
            raise
        output = call.judge.role.output
        lines = [judgement_line(unit.key, len(judgements), each, output) for each in judgements]
        head = {"unit": unit.key, "case": lines[0].case, "probe": lines[0].probe}
        steps = [step for judgement in judgements for step in judgement.steps]
        events = [head | {"editor": call.spec} | event_of(step) for step in steps]
        return UnitResult(lines, events, count_lines(lines))

    def _note(self, error: Exception) -> None:
        with self._lock:
            self.failed += 1
            self.first_failure = self.first_failure or error_text(error)

    def next_command(self, folder: Path) -> str:
        """Return the command that shows the scores."""
        scoring = self.setup.scoring.id
        return f"emend report {shlex.quote(str(self.setup.run))} --scoring {scoring}"

    def close(self) -> None:
        """Close the job's resources."""
        self._opened.close()
