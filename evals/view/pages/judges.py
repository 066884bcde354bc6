"""The judges of a run: their agreement with people, and the answers on which they differ."""

from emend.evals.aggregate.judged import calibration_of, judged_notes
from emend.evals.judges.store import Scoring, list_scorings
from emend.evals.view.answers import RunAnswers
from emend.evals.view.pages.cases import anchor
from emend.evals.view.pages.common import PageRequest, case_path, facts, run_path, text_of
from emend.evals.view.records.judges import AgreementView, DisagreementView, JudgesView, ScoringView, Vote
from emend.evals.view.records.page import Page
from emend.evals.view.scan import RunPlace
from emend.evals.view.votes import SplitVote, SplitVotes

HIDDEN = ("reasons", "items", "prompt_id", "kind", "judge")


def judges_page(request: PageRequest, place: RunPlace) -> Page:
    """Scorings with their calibration, and disagreements."""
    votes, status = request.library.results.get("votes", [place.folder])
    answers, _ = request.library.answers(place)
    run = request.library.entry(place, wait=answers is not None)
    scorings = tuple(_scoring_view(place, scoring) for scoring in list_scorings(place.folder))
    data = JudgesView(run=run, status=status, scorings=scorings)
    if isinstance(votes, SplitVotes):
        listed = tuple(_disagreement(place, answers, vote) for vote in votes.votes)
        data = data.model_copy(
            update={"disagreements": listed, "disagreements_total": votes.total, "judgements": votes.judgements}
        )
    words = ["report", str(place.folder), "--all"]
    waiting = status.state == "computing"
    return Page(request.head("judges", f"Judges of {place.name}", place, words=words, waiting=waiting), data)


def _scoring_view(place: RunPlace, scoring: Scoring) -> ScoringView:
    return ScoringView(
        id=scoring.id,
        judges=scoring.panel.judges,
        kinds=scoring.kinds,
        started=scoring.started,
        combined=scoring.panel.combine,
        notes=tuple(judged_notes(place.folder, scoring)) if "tendency" not in scoring.kinds else (),
        agreements=tuple(_agreement(scoring, kind) for kind in scoring.kinds),
    )


def _agreement(scoring: Scoring, kind: str) -> AgreementView:
    known = scoring.calibrated(kind) or {}
    measured = {name: value for name, value in known.items() if name not in HIDDEN and value is not None}
    return AgreementView(kind=kind, text=calibration_of(scoring, kind), facts=facts(measured))


def _disagreement(place: RunPlace, answers: RunAnswers | None, vote: SplitVote) -> DisagreementView:
    key = answers.find(vote.setting, vote.case) if answers else None
    mark = anchor(vote.editor, vote.probe, vote.repeat, vote.checkpoint, place)
    return DisagreementView(
        kind=vote.kind,
        number=key.number if key else 0,
        setting=vote.setting,
        editor=vote.editor,
        question=vote.question,
        answer=vote.answer,
        votes=tuple(
            Vote(
                judge=each.judge,
                repeat=each.repeat,
                swapped=each.swapped,
                value=text_of(each.values) or each.problem,
                reason=each.reason,
            )
            for each in vote.judgements
        ),
        href=f"{case_path(place, *key)}#{mark}" if key else run_path(place, "cases.html"),
    )
