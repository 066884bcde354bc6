"""The judges of a run: their agreement with people, and the answers on which they differ."""

from collections.abc import Iterator

from emend.evals.judging.store import Scoring, list_scorings
from emend.evals.results.aggregate.judged import calibration_of, judged_notes
from emend.evals.show.view.answers import RunAnswers
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PageRequest, facts
from emend.evals.show.view.results import SplitVotes
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import AgreementView, DisagreementView, JudgesView, Page, ScoringView

HIDDEN = ("reasons", "items", "prompt_id", "kind", "judge")


def judges_page(request: PageRequest, place: RunPlace) -> Page:
    """Scorings with their calibration, and disagreements."""
    votes, status = request.library.results.get("votes", [place.folder])
    answers, indexed = request.library.answers(place)
    scorings = tuple(_scoring_view(place, scoring) for scoring in list_scorings(place.folder))
    data = JudgesView(status=status, scorings=scorings)
    if isinstance(votes, SplitVotes):
        listed = tuple(_disagreements(place, answers, votes)) if answers else ()
        data = data.model_copy(
            update={"disagreements": listed, "disagreements_total": votes.total, "judgements": votes.judgements}
        )
    words = ["report", str(place.folder), "--all"]
    waiting = "computing" in (status.state, indexed.state)
    return Page(request.head("judges", f"Judges of {place.name}", place, words=words, waiting=waiting), data)


def _scoring_view(place: RunPlace, scoring: Scoring) -> ScoringView:
    return ScoringView(
        scoring=scoring,
        notes=tuple(judged_notes(place.folder, scoring)) if "tendency" not in scoring.kinds else (),
        agreements=tuple(_agreement(scoring, kind) for kind in scoring.kinds),
    )


def _agreement(scoring: Scoring, kind: str) -> AgreementView:
    known = scoring.calibrated(kind) or {}
    measured = {name: value for name, value in known.items() if name not in HIDDEN and value is not None}
    return AgreementView(kind=kind, text=calibration_of(scoring, kind), facts=facts(measured))


def _disagreements(place: RunPlace, answers: RunAnswers, votes: SplitVotes) -> Iterator[DisagreementView]:
    for vote in votes.votes:
        key = answers.find(vote.record.setting, vote.record.case)
        if key:
            yield DisagreementView(kind=vote.kind, answer=answer_view(place, vote.record, key), votes=vote.judgements)
