"""Scores of answers to the questions of a stream."""

from emend.evals.evaluate.ask_unit import hit_at_1
from emend.evals.metrics.agents import score_calls
from emend.evals.metrics.expected_answers import (
    UNKNOWN,
    ExpectedAnswer,
    WrongText,
    score_expected,
)
from emend.evals.metrics.fact_checks import score_checks
from emend.evals.metrics.scorers import score, without_blank
from emend.evals.metrics.scores import EMPTY, NO_TEXT, ProbeScores
from emend.evals.streams.turn import StreamQuestion
from emend.memory.probe import Answer, Probe
from emend.memory.redaction import hide_keys


def expected_of(question: StreamQuestion) -> ExpectedAnswer:
    """Return the right answers to a question and the known wrong ones."""
    return ExpectedAnswer(
        prompt=question.prompt,
        gold=(UNKNOWN,) if question.abstains else question.gold,
        wrong=tuple(WrongText(wrong.value, wrong.why) for wrong in question.wrong),
        abstains=question.abstains,
        names_all=question.kind == "set",
        all_golds=question.all_golds,
    )


def score_answer(question: StreamQuestion, answer: Answer) -> ProbeScores:
    """Score an answer by its text, retrieved turns and tool calls, unless it is blank."""
    scores = score_expected(expected_of(question), without_blank(answer), question.evidence)
    is_blank = answer.text is not None and not answer.text.strip()
    if is_blank:
        reasons = scores.unscored.items()
        scores.unscored.update({name: EMPTY for name, why in reasons if why == NO_TEXT})
    scores.values.update(score_calls(question.evidence, answer) | score_checks(answer))
    published = score_published(question, without_blank(answer))
    scores.values.update(published.values)
    scores.unscored.update(published.unscored)
    hit = hit_at_1(question.evidence, answer)
    if hit is not None:
        scores.values["hit@1"] = hit
    return scores


def score_published(question: StreamQuestion, answer: Answer) -> ProbeScores:
    """Score an answer by the scorers of the question's benchmark, such as LoCoMo's F1.

    Questions of generated streams have no such scorers.
    """
    probe = Probe(
        id=question.id,
        kind=question.category or question.kind,
        prompt=question.prompt,
        style="question",
        gold=question.gold or (UNKNOWN,),
        choices=tuple(wrong.value for wrong in question.wrong),
        all_golds=question.all_golds,
        rubric=question.rubric,
        criterion=question.criterion,
        abstains=question.abstains,
        scorers=question.scorers,
    )
    return score(probe, answer)


def score_error(question: StreamQuestion, error: Exception, until: Answer) -> ProbeScores:
    """Return unscored results with the error as the reason.

    Args:
        question: the question that was asked.
        error: why there is no answer.
        until: the answer's steps and retrieved turns before the error.
    """
    scores = score_expected(expected_of(question), Answer(), question.evidence)
    names = (*scores.unscored, *score_published(question, Answer()).unscored)
    unscored = dict.fromkeys(names, hide_keys(str(error)))
    hit = hit_at_1(question.evidence, until)
    values = scores.values | score_calls(question.evidence, until) | score_checks(until)
    if hit is not None:
        values["hit@1"] = hit
    return ProbeScores(values, unscored)
