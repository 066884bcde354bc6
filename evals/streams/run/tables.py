"""SQL tables of a run over a stream: observed turns, and answers."""

from emend.evals.results.aggregate.job_tables import JobTable
from emend.evals.streams.run.line import AnswerLine, TurnsLine

TABLES = {
    "turns": JobTable(
        TurnsLine,
        "one row per point and system: ids of the turns observed before it (texts: edits), their "
        "cost, and the store afterwards",
        is_answer=False,
    ),
    "answers": JobTable(
        AnswerLine,
        "one row per answer to a question of the stream: user, date, evidence, wrong answers",
    ),
}
