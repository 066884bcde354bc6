"""Views of the page of judges."""

from emend.evals.judging.panel import Judgement
from emend.evals.judging.store import Scoring
from emend.evals.show.view.views.cases import AnswerView
from emend.evals.show.view.views.page import NamedValue, Status
from emend.memory.edit import FrozenModel


class AgreementView(FrozenModel):
    """Measured agreement of judges with people on one kind of item."""

    kind: str
    text: str
    facts: tuple[NamedValue, ...] = ()


class ScoringView(FrozenModel):
    """A scoring: who judged, what, and how well that agrees with people."""

    scoring: Scoring
    notes: tuple[str, ...]
    agreements: tuple[AgreementView, ...]


class DisagreementView(FrozenModel):
    """An answer on which judges, repeats or orders differ."""

    kind: str
    answer: AnswerView
    votes: tuple[Judgement, ...]


class JudgesView(FrozenModel):
    """The scorings of a run, and the answers on which the newest one's votes differ."""

    status: Status
    scorings: tuple[ScoringView, ...] = ()
    disagreements: tuple[DisagreementView, ...] = ()
    disagreements_total: int = 0
    judgements: int = 0
