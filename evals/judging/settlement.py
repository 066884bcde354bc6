"""Settlement of disputes by people: adds the labels of an annotation study to a scoring."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from emend.agents.providers.policy import CallPolicy
from emend.evals.config.limits import FailureLimit
from emend.evals.jobs.job import JobContext, Lane, UnitJob
from emend.evals.jobs.line import count_lines
from emend.evals.jobs.results import UnitResult, WorkUnit
from emend.evals.jobs.runner import run_job
from emend.evals.judging.calibration.labels import LabelledItem
from emend.evals.judging.disputes import PEOPLE
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.scorings.line import call_labels, judgement_line
from emend.evals.judging.scorings.manifest import DRAFTS, FOLDER, JOB, Scoring
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.judging.scorings.verdicts import open_disputes
from emend.evals.log.folder import owned_folder
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings


class SettledDisputes(FrozenModel):
    """Numbers of disputes settled by labels, by verdict, and of other labels."""

    scoring: str
    accepted: int = 0
    rejected: int = 0
    other: int = 0
    """Number of labels that are null or for an item without an open dispute."""
    open: int = 0
    """Number of disputes that remain open."""


def settle_by_people(
    folder: Path, labels: Sequence[LabelledItem], scoring_name: str | None = None
) -> SettledDisputes:
    """Add people's verdicts on disputed items to a scoring, where they take precedence over the
    judges' verdicts.

    Args:
        folder: a run folder.
        labels: labelled items; only labels of disputed items are used.
        scoring_name: id of the scoring, or its beginning; None for the newest.

    Raises:
        BadSettings: there is no such scoring, or it lacks a kind of the labels.
        RunRefused: the folder cannot be written, or another process scores it.
    """
    scoring = find_scoring(folder, scoring_name)
    if scoring is None:
        raise BadSettings(
            f"'{folder}' has no scoring: judge it with: emend judge run {folder} --judge MODEL"
        )
    kinds = dict.fromkeys(label.kind for label in labels)
    judges = {kind: scoring.panel.load(kind) for kind in kinds}
    if foreign := sorted({*judges} - {*scoring.kinds}):
        raise BadSettings(
            f"the labels are for {foreign[0]}, but scoring '{scoring.id}' has "
            f"{', '.join(scoring.kinds)}."
        )
    disputed = {kind: open_disputes(folder, scoring, kind) for kind in judges}
    settled: dict[str, Judgement] = {}
    for label in labels:
        if label.label is not None and label.item.id in disputed[label.kind]:
            role = judges[label.kind].role
            values = {role.output: label.label}
            settled[label.item.id] = Judgement(
                item=label.item.id, kind=role.name, judge=PEOPLE, values=values
            )
    with owned_folder(folder / FOLDER, links=False):
        job = SettlementJob(scoring, list(settled.values()))
        run_job(lambda _: job, scoring.folder(folder), drafts=DRAFTS)
    accepted = sum(1.0 in judgement.values.values() for judgement in settled.values())
    return SettledDisputes(
        scoring=scoring.id,
        accepted=accepted,
        rejected=len(settled) - accepted,
        other=len(labels) - len(settled),
        open=sum(map(len, disputed.values())) - len(settled),
    )


class SettlementJob(UnitJob):
    """Job that writes people's verdicts to a scoring, with one unit per verdict.

    Args:
        scoring: scoring whose disputes are settled.
        verdicts: people's verdicts.
    """

    name: ClassVar[str] = JOB
    concurrency = 1

    def __init__(self, scoring: Scoring, verdicts: Sequence[Judgement]) -> None:
        self.scoring, self.verdicts = scoring, verdicts
        self.policy = CallPolicy()
        self.failure_limit = FailureLimit.parse("true")

    def prepare(self, folder: Path, finished: Collection[str]) -> Scoring:
        """Write the scoring's manifest with the new number of units."""
        units = len(finished) + len(self.verdicts)
        return self.scoring.model_copy(update={"units": units}).written(folder)

    def lanes(self) -> Iterator[Lane]:
        """Yield a lane for each verdict."""
        for verdict in self.verdicts:
            key = content_id(JOB, self.scoring.id, verdict.kind, verdict.item, PEOPLE)
            labels = call_labels(verdict.item, PEOPLE, 0)
            yield Lane([WorkUnit(key, PEOPLE, labels, verdict)])

    def evaluate_unit(self, unit: WorkUnit, session: Any, context: JobContext) -> UnitResult:
        """Return the line of a verdict."""
        verdict: Judgement = unit.content
        line = judgement_line(unit.key, 1, verdict, next(iter(verdict.values)))
        return UnitResult([line], [], count_lines([line]))
