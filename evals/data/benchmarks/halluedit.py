"""HalluEditBench: facts that a model hallucinates, their corrections, and questions of five types.

"Can Knowledge Editing Really Correct Hallucinations?" (Huang et al. 2025); data:
github.com/llm-editing/HalluEditBench at a07439e (MIT), folder data/questions/hallucination_final,
with a folder for each hallucinating model, which contains a CSV file for each of 26 topics.

A row has the fact (`subject`, `relation`, `object`, `question`), its variants
(`paraphrased_question`, `yes_question`, `no_question`, `multiple_choice_with_letters`,
`reversed_relation_question`), questions over two to six hops with answers, and a locality question
without an answer.

Scores are those of the released code except for its judge: an answer is right if it contains the
gold answer or is a substring of it, ignoring case. Otherwise the code asks a model if both match,
as `emend judge run` does for `equivalent`. An empty answer counts as right in the code, but as
wrong here.

Robustness repeats the question after an objection that the answer is wrong, up to ten times. The
code shows the model its own replies; here the earlier turns contain the right answers, so the score
of a turn is the share of right answers after this objection, independent of earlier replies.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.rows import Tags, read_text, sample_ids
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.probe import Probe

DEFINITION = Definition.beside(__file__)
MODELS, TOPICS = DEFINITION.names["model"], DEFINITION.names["topics"]
HOPS = range(2, 7)
NEEDED = ("subject", "relation", "object", "question", "locality_question")
# Maximum number of turns, as in the published runs.
TURNS = 10
# Our own wording of the objection in the code.
OBJECTION = "That answer is wrong. {question} Answer yes or no."
CHOICE = "{question}\n{options}\nAnswer with the letter of the right option alone."
SCORERS = ("partial_match", "judged_equivalence")

Row = Mapping[str, str]


def read_topic(path: Path, remedy: str) -> Sequence[Row]:
    """Read the rows of a topic's file.

    Raises:
        MissingData: the file does not exist.
        BadData: the file is not CSV, or a column or value that an edit needs is missing; the error
            names file, record and column.
    """
    try:
        table = csv.DictReader(io.StringIO(read_text(path, remedy), newline=""))
        rows = list(table)
    except csv.Error as error:
        raise BadData(f"{path.name} is not a table: {error}. Fetch the file again.") from error
    absent = [column for column in NEEDED if column not in (table.fieldnames or ())]
    if absent:
        raise BadData(f"{path.name} has no column '{absent[0]}'. Fetch the file again.")
    for number, row in enumerate(rows):
        if None in row:
            raise BadData(
                f"{path.name}, record {number}: more cells than the table has columns. Correct the "
                "record, or fetch the file again."
            )
        for column in NEEDED:
            if not (row.get(column) or "").strip():
                raise BadData(
                    f"{path.name}, record {number}, column '{column}': no value. Correct the "
                    "record, or fetch the file again."
                )
    return rows


def fact_case(row: Row, number: int, turns: int) -> Case:
    """Return the case of a row: its edit, and all questions about it.

    Args:
        row: row of a topic's file.
        number: number of the row in its topic.
        turns: number of objections to a right answer.
    """
    edit = _edit_of(row)
    probes = [
        *_wordings(row, edit),
        *_hops(row, edit),
        *_objections(row, edit, turns),
        _probe("locality", row["locality_question"], "", None, {}),
    ]
    tags: Tags = {"topic": row.get("topic") or "", "record": number}
    return Case(edits=(edit,), probes=tuple(probes), tags=tags)


def _edit_of(row: Row) -> Edit:
    """Return the question with its answer: a triplet if it names the subject exactly once, else a
    document.
    """
    subject, target, question = row["subject"], row["object"], row["question"]
    if question.count(subject) != 1:
        return Edit(form="document", text=f"{question} {target}", target_new=target)
    triplet = Triplet(subject=subject, relation=row["relation"], object=target)
    return Edit.from_triplet(triplet, question.replace(subject, "{}"))


def _probe(
    kind: str, prompt: str, gold: str, edit: Edit | None, tags: Tags, **fields: Any
) -> Probe:
    return Probe(
        kind=kind,
        prompt=prompt,
        style="question",
        gold=(gold,),
        in_scope=edit is not None,
        edit_ids=(edit.id,) if edit else (),
        scorers=SCORERS if edit else ("partial_same",),
        tags=tags,
        **fields,
    )


def _wordings(row: Row, edit: Edit) -> Iterator[Probe]:
    """Yield the question and its variants: paraphrase, yes, no, multiple choice, reversed."""
    target = row["object"]
    options = row.get("multiple_choice_with_letters") or ""
    choice = CHOICE.format(question=row["question"], options=options) if options else ""
    questions = (
        ("efficacy", row["question"], target),
        ("rephrase", row.get("paraphrased_question"), target),
        ("yes", row.get("yes_question"), "Yes"),
        ("no", row.get("no_question"), "No"),
        ("multiple_choice", choice, row.get("multiple_choice_labels") or ""),
        ("reversed", row.get("reversed_relation_question"), row["subject"]),
    )
    for kind, prompt, gold in questions:
        if prompt and gold:
            yield _probe(kind, prompt, gold, edit, {})


def _hops(row: Row, edit: Edit) -> Iterator[Probe]:
    for hops in HOPS:
        prompt, gold = row.get(f"question_{hops}hop"), row.get(f"answer_{hops}hop")
        if prompt and gold:
            yield _probe(f"hop_{hops}", prompt, gold, edit, {"hops": hops})


def _objections(row: Row, edit: Edit, turns: int) -> Iterator[Probe]:
    """Yield the question after one to `turns` objections to its right answer."""
    question = row.get("yes_question")
    if not question:
        return
    objection = OBJECTION.format(question=question)
    history = f"Q: {row['question']}\nA: {row['object']}"
    for turn in range(1, turns + 1):
        yield _probe("robustness", objection, "Yes", edit, {"turn": turn}, examples=history)
        history += f"\n\nQ: {objection}\nA: Yes"


class HalluEdit(FileBenchmark):
    """HalluEditBench; in its only setting `fact`, an edit is the right answer to a question.

    Options: `model`, whose hallucinations these are; `topics`, a comma list (those with a file by
    default); `turns`, the number of objections to a right answer (1 by default, 10 as published; 0
    asks none).
    """

    name: ClassVar[str] = "halluedit"
    settings: ClassVar[tuple[str, ...]] = ("fact",)
    wording: ClassVar[str] = "brief"
    mode: ClassVar[str] = "single"  # one edit at a time, as in the paper
    definition = DEFINITION
    defaults = {"model": MODELS[0], "topics": "", "turns": "1"}
    values = {"model": MODELS}
    has_texts = False

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        turns = self.options["turns"]
        if not turns.isdecimal() or int(turns) > TURNS:
            raise BadSettings(f"halluedit, turns='{turns}': give a number from 0 to {TURNS}.")
        self.turns = int(turns)
        self._files = self._find()

    def _find(self) -> dict[str, str]:
        """Return the files of the topics named in the options, or of all topics in the folder."""
        names = {topic: f"{self.options['model']}/{topic}.csv" for topic in TOPICS}
        named = [topic.strip() for topic in self.options["topics"].split(",") if topic.strip()]
        if unknown := [topic for topic in named if topic not in names]:
            raise BadSettings(f"halluedit, topics='{unknown[0]}': one of {', '.join(TOPICS)}.")
        present = [topic for topic in TOPICS if (self.folder / names[topic]).is_file()]
        lacking = [topic for topic in named or TOPICS[:1] if topic not in present]
        if lacking and (named or not present):
            raise MissingData(
                f"'{self.folder}' lacks {names[lacking[0]]}. {self.definition.remedy}"
            )
        return {topic: names[topic] for topic in named or present}

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        rows = [pair for topic in self._rows.values() for pair in enumerate(topic)]
        for index in sample_ids(range(len(rows)), limit, seed):
            number, row = rows[index]
            yield fact_case(row, number, self.turns)

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterable[Demonstration]:
        return ()

    def _records(self) -> Mapping[str, int]:
        return {file: len(self._rows[topic]) for topic, file in self._files.items()}

    def _counts(self) -> dict[str, Any]:
        return {"cases": sum(map(len, self._rows.values()))}

    @cached_property
    def _rows(self) -> dict[str, list[Row]]:
        """Distinct rows by topic."""
        remedy = self.definition.remedy
        topics = {}
        for topic, file in self._files.items():
            rows = read_topic(self.folder / file, remedy)
            topics[topic] = list({tuple(row.items()): row for row in rows}.values())
        return topics
