"""WikiBigEdit: hundreds of thousands of Wikidata facts that changed between two dates.

"WikiBigEdit: Understanding the Limits of Lifelong Knowledge Editing in LLMs" (Thede et al. 2025);
format and scores: github.com/ExplainableML/WikiBigEdit at 66b4285 (Apache-2.0),
WikiBigEdit_Pipeline/combine_qa.py and EasyEdit_Experiments/easyeditor/evaluate/; the files, one per
period, are lukasthede/WikiBigEdit at Hugging Face.

A row has the question `update` with its answer `ans`, a paraphrase (`rephrase`), versions in the
style of different personas (`personas`, `personas_...`), in some rows a two-hop question (`mhop`,
`mhop_ans`), and a locality question (`loc`, `loc_ans`).

Scores are those of the code: each question is asked as `Q: ... A:`, and the answer's tokens are
compared with the most probable ones, given the previous tokens, by the share of equal tokens and
macro-F1 over token ids. Locality compares with the tokens before the edit; the share of right
tokens is also reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, field_validator

from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.editing.token_benchmark import (
    SAME,
    TokenBenchmark,
    case_of,
    edit_of,
    json_files,
    right_probe,
    same_probe,
)
from emend.evals.data.benchmarks.rows import BenchmarkRow, Tags, Text, read_rows
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings, MissingData
from emend.memory.probe import Probe

# Question template of the code.
QUESTION = "Q: {question} A:"
SCORERS = ("teacher_forced", "token_f1")


class ChangedFactRow(BenchmarkRow):
    """A row; further persona questions are extra fields."""

    model_config = ConfigDict(frozen=True, extra="allow")

    subject: str = ""
    update: Text
    ans: Text
    rephrase: str | None = None
    mhop: str | None = None
    mhop_ans: str | None = None
    loc: Text
    loc_ans: Text
    tag: str | None = None

    @field_validator("ans", "loc_ans", "mhop_ans", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) else value

    @property
    def personas(self) -> dict[str, str]:
        """Persona questions by field name."""
        further = self.model_extra or {}
        return {
            name: str(question)
            for name, question in further.items()
            if name.startswith("personas") and question
        }


class WikiBigEdit(TokenBenchmark):
    """WikiBigEdit; in its only setting `fact`, an edit is a question with its new answer.

    Option `period`: the name of a file, such as `wiki_big_edit_20240201_20240220`; the first in the
    folder by default.
    """

    name: ClassVar[str] = "wikibigedit"
    mode: ClassVar[str] = "sequential"  # lifelong, as in the paper
    definition = Definition.beside(__file__)
    defaults = {"period": ""}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        files, period = json_files(self.folder), self.options["period"].removesuffix(".json")
        if not files:
            raise MissingData(f"'{self.folder}' has no JSON file. {self.definition.remedy}")
        if period and f"{period}.json" not in files:
            names = ", ".join(file.removesuffix(".json") for file in files)
            raise BadSettings(f"wikibigedit, period='{period}': one of {names}.")
        self.file = f"{period}.json" if period else files[0]

    def _read(self) -> Mapping[str, Sequence[BenchmarkRow]]:
        return {
            self.file: read_rows(self.folder / self.file, ChangedFactRow, self.definition.remedy)
        }

    def _case(self, row: ChangedFactRow, file: str, number: int) -> Case:
        edit = edit_of(row.update, row.subject, row.ans)
        tags: Tags = {"record": number}
        if row.tag:
            tags["tag"] = row.tag
        beside = same_probe("locality", **_put(row.loc, row.loc_ans), scorers=(*SAME, *SCORERS))
        return case_of([edit], [*_asked(row, edit), beside], tags)


def _put(question: str, answer: str) -> dict[str, Any]:
    """Return a question in the code's template; a memory is searched for the question only."""
    return {"prompt": QUESTION.format(question=question), "query": question, "gold": answer}


def _asked(row: ChangedFactRow, edit: Edit) -> Iterator[Probe]:
    """Yield the question, its paraphrases, and the two-hop question."""
    questions = [("update", row.update, row.ans, "")]
    if row.rephrase:
        questions.append(("rephrase", row.rephrase, row.ans, ""))
    questions += [("personas", question, row.ans, name) for name, question in row.personas.items()]
    if row.mhop and row.mhop_ans:
        questions.append(("mhop", row.mhop, row.mhop_ans, ""))
    for kind, question, answer, persona in questions:
        tags = {"persona": persona} if persona else {}
        yield right_probe(kind, **_put(question, answer), edit=edit, scorers=SCORERS, tags=tags)
