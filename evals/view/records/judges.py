"""Records of the page of judges."""

from emend.evals.view.records.page import Fact, Status
from emend.evals.view.records.run import RunEntry
from emend.memory.edit import FrozenModel


class AgreementView(FrozenModel):
    """Measured agreement of judges with people on one kind of item."""

    kind: str
    text: str
    facts: tuple[Fact, ...] = ()


class ScoringView(FrozenModel):
    """A scoring: who judged, what, and how well that agrees with people."""

    id: str
    judges: tuple[str, ...]
    kinds: tuple[str, ...]
    started: str
    combined: str
    notes: tuple[str, ...]
    agreements: tuple[AgreementView, ...]


class Vote(FrozenModel):
    """One judgement of an item."""

    judge: str
    repeat: int
    swapped: bool
    value: str
    reason: str


class DisagreementView(FrozenModel):
    """An answer on which judges, repeats or orders differ."""

    kind: str
    number: int
    setting: str
    editor: str
    question: str
    answer: str | None
    votes: tuple[Vote, ...]
    href: str


class JudgesView(FrozenModel):
    """The scorings of a run, and the answers on which the newest one's votes differ."""

    run: RunEntry
    status: Status
    scorings: tuple[ScoringView, ...] = ()
    disagreements: tuple[DisagreementView, ...] = ()
    disagreements_total: int = 0
    judgements: int = 0
