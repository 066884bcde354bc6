"""ELKEN's questions for the background knowledge itself, asked without any event (Table 4, recall rate).

The file is model-know/qas.json of commit 2e738ae in THU-KEG/Event-Level-Knowledge-Editing, which later ones lack: a
list of 542 questions, one invented here:

    {"question": "Who is the child of Ilse Varn?", "answer": {"id": "NA", "name": "Odd Varn", "alias": []},
     "item_id": 2, "qa_id": 1}

A question's numbers do not fit the published events, so that they tell no event.
"""

from collections.abc import Iterator
from pathlib import Path

from emend.evals.benchmarks.elken.rows import FACT_PROMPT, Gold, Text
from emend.evals.benchmarks.files import Row, read_rows
from emend.evals.case import Case
from emend.evals.metrics.elken import UNITED_STATES
from emend.memory.probe import Probe

KNOWLEDGE = "knowledge"
"""The block's name."""
KIND = "background_knowledge"
FILES = ("background_knowledge_qas.json", "qas.json", "model-know/qas.json")


class KnowledgeQuestion(Row):
    """A question whose answer some factual questions build on."""

    question: Text
    answer: Gold


def knowledge_file(folder: Path) -> str:
    """The file's name in a data folder, or the first of those that are looked for."""
    return next((name for name in FILES if (folder / name).is_file()), FILES[0])


def knowledge_cases(path: Path, remedy: str) -> Iterator[Case]:
    """One case per question, without edits; one that comes again counts again, as in the paper.

    Raises:
        BadData: the file, or a record, is malformed.
    """
    for number, row in enumerate(read_rows(path, KnowledgeQuestion, remedy)):
        yield knowledge_case(row, number)


def knowledge_case(row: KnowledgeQuestion, number: int = 0) -> Case:
    """The case of one question, which its place in the file tells from the same question asked again."""
    american = (UNITED_STATES,) if row.answer.id == "Q30" else ()
    probe = Probe(
        kind=KIND,
        prompt=FACT_PROMPT.format(question=row.question),
        style="raw",
        gold=(row.answer.name, *row.answer.alias, *american),
        in_scope=False,
        scorers=("elken_fact",),
        query=row.question,
        tags={"n": number},
    )
    return Case(edits=(), probes=(probe,))
