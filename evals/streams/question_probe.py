"""Probes for the questions of a stream, without their gold answers and kinds."""

from emend.evals.streams.turn import StreamQuestion
from emend.memory.probe import Form, Probe

KIND = "question"


def question_probe(question: StreamQuestion, form: Form = "") -> Probe:
    """Return the question as a probe.

    Args:
        question: a question of a stream.
        form: prompt form for models that accept both, plain or chat.
    """
    return Probe(
        id=question.id,
        kind=KIND,
        prompt=question.prompt,
        style="question",
        gold=(),
        query=question.text,
        form=form,
    )
