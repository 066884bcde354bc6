"""KnowEdit: facts to insert, modify and erase, with portability and locality questions.

"A Comprehensive Study of Knowledge Editing for Large Language Models" (Zhang et al. 2024); format
and scores: github.com/zjunlp/EasyEdit at 14cea82 (MIT), easyeditor/dataset/{knowedit,
sanitization}.py, easyeditor/evaluate/ and examples/run_knowedit_llama2.py; the files are zjunlp/
KnowEdit at Hugging Face.

Scores are those of the code. The score of a right answer is the share of its tokens that are the
most probable ones, given the previous tokens (teacher forcing). Locality is the share of positions
in the answer whose most probable token is the same as before the edit. Portability and locality of
a row are the means over its groups' means, and those in the table the means over rows that have
them.

Sanitation, the erasure set, has questions whose answers must be withheld (`K_F`, each with its
replacement `target_new`) and questions that must be answered as before (`K_R`). Questions of both
lists are paired by index; if `K_R` is shorter, it is repeated from the beginning.

ConvSent, opinions of a feeling about a topic, is not read: its edit has no answer that a question
could ask for, and its score weighs the likelihoods of all of a topic's replies against each other
(easyeditor/evaluate/personality_evaluate.py), for Llama alone.

839 rows of `wiki_counterfact` and 1,301 of `ZsRE`, taken from the results of HalluEditBench's
repository, have been read with this module.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import AliasChoices, Field, TypeAdapter, ValidationError

from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.editing.token_benchmark import (
    TokenBenchmark,
    case_of,
    edit_of,
    fluency_probe,
    right_probe,
    same_probe,
    text_length,
)
from emend.evals.data.benchmarks.rows import BenchmarkRow, Text, read_rows, read_text
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings, field_problem
from emend.memory.probe import Probe

# The erasure set, whose file is not part of the dataset.
ERASURE = "sanitation"
# Names of each set's test file, in the published folder and by itself.
FILES = {
    "counterfact": ("wiki_counterfact/test_cf.json", "test_cf.json"),
    "recent": ("wiki_recent/recent_test.json", "recent_test.json"),
    "zsre": ("ZsRE/ZsRE-test-all.json", "ZsRE-test-all.json"),
    "wikibio": ("WikiBio/wikibio-test-all.json", "wikibio-test-all.json"),
    ERASURE: ("Sanitation/trivia_qa_test.json", "trivia_qa_test.json"),
}
CONVSENT = "convsent"
NO_CONVSENT = (
    "KnowEdit's ConvSent is not read: its edits are opinions, not answers, and its score compares "
    "the likelihoods of all replies about a topic, which no scorer here does. Choose dataset="
)
PORTABILITY = ("Reasoning", "Subject_Aliasing", "Logical_Generalization")
LOCALITY = ("Relation_Specificity", "Forgetfulness")


class FollowingRow(BenchmarkRow):
    """A question of a group: its first prompt, and the first of its nested answers."""

    prompt: Any
    ground_truth: Any


Groups = dict[str, list[FollowingRow]]


class EditedFactRow(BenchmarkRow):
    """A row of the sets of facts, or of WikiBio, whose fields have different names."""

    subject: Text = Field(validation_alias=AliasChoices("subject", "concept"))
    prompt: Text = Field(validation_alias=AliasChoices("prompt", "text"))
    target_new: Text = Field(validation_alias=AliasChoices("target_new", "labels"))
    rephrase_prompt: str | None = Field(
        default=None, validation_alias=AliasChoices("rephrase_prompt", "rephrase")
    )
    portability: Groups | None = None
    locality: Groups | None = None


class ForgottenRow(BenchmarkRow):
    """A question whose answer must be withheld."""

    question: Text
    ground_truth: Text
    target_new: Text


class RetainedRow(BenchmarkRow):
    """A question whose answer must stay the same."""

    question: Text
    ground_truth: Text


class SanitationFile(BenchmarkRow):
    """Content of the erasure set's file."""

    forgotten: list[ForgottenRow] = Field(alias="K_F", min_length=1)
    retained: list[RetainedRow] = Field(alias="K_R", min_length=1)


class ErasureRow(BenchmarkRow):
    """A question to withhold, paired with one to retain."""

    forgotten: ForgottenRow
    retained: RetainedRow


def first_text(value: Any) -> str:
    """Return the first text in nested lists, as the code does; empty if there is none."""
    while isinstance(value, list):
        value = value[0] if value else ""
    return str(value).strip()


def questions_of(groups: Groups | None, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, prompt and answer of the groups' questions; those without an answer are left out,
    as in the code.
    """
    for name in names:
        for item in (groups or {}).get(name, ()):
            prompt, answer = first_text(item.prompt), first_text(item.ground_truth)
            if prompt and answer:
                yield name.lower(), prompt, answer


def read_sanitation(path: Path, remedy: str) -> list[ErasureRow]:
    """Read the rows of the erasure set.

    Raises:
        BadData: the file is not an object with questions in `K_F` and `K_R`.
    """
    try:
        content = TypeAdapter(SanitationFile).validate_json(read_text(path, remedy))
    except ValidationError as error:
        raise BadData(f"{path.name}, {field_problem(error)}. {remedy}") from error
    retained = content.retained
    return [
        ErasureRow(forgotten=row, retained=retained[number % len(retained)])
        for number, row in enumerate(content.forgotten)
    ]


class KnowEdit(TokenBenchmark):
    """KnowEdit; in its only setting `fact`, an edit is a prompt with its new target.

    Options: `dataset`: `counterfact`, `recent`, `zsre`, `wikibio` or `sanitation`, the one for
    erasure. `generation`: number of tokens of the text for fluency, 100 in the code; 0, the
    default, generates none.
    """

    name: ClassVar[str] = "knowedit"
    definition = Definition.beside(__file__)
    defaults = {"dataset": "counterfact", "generation": "0"}
    values = {"dataset": tuple(FILES)}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        if (options or {}).get("dataset", "").lower() == CONVSENT:
            raise BadSettings(f"{NO_CONVSENT}{', '.join(FILES)}.")
        super().__init__(data, options)
        self.dataset = self.options["dataset"]
        self.generation = text_length(self.name, self.options["generation"])
        self.file = self.first_file(FILES[self.dataset])

    def _read(self) -> Mapping[str, Sequence[BenchmarkRow]]:
        path, remedy = self.folder / self.file, self.definition.remedy
        if self.dataset == ERASURE:
            return {self.file: read_sanitation(path, remedy)}
        return {self.file: read_rows(path, EditedFactRow, remedy)}

    def _case(self, row: EditedFactRow | ErasureRow, file: str, number: int) -> Case:
        if isinstance(row, EditedFactRow):
            edit = edit_of(row.prompt.strip(), row.subject, row.target_new.strip())
            probes = [*self._asked(row.prompt.strip(), edit), *_beside(row, edit)]
        else:
            edit = edit_of(row.forgotten.question, "", row.forgotten.target_new)
            retained = same_probe("retained", row.retained.question, row.retained.ground_truth)
            probes = [*self._asked(row.forgotten.question, edit), retained]
        return case_of([edit], probes, {"record": number})

    def _asked(self, prompt: str, edit: Edit) -> Iterator[Probe]:
        """Yield the prompt of the edit, and the same prompt for text generation."""
        target = edit.target_new or ""
        yield right_probe("edit", prompt, target, edit)
        if self.generation:
            yield fluency_probe(prompt, target, edit, self.generation)


def _beside(row: EditedFactRow, edit: Edit) -> Iterator[Probe]:
    """Yield the paraphrased prompt, the portability questions and the locality questions."""
    if row.rephrase_prompt:
        yield right_probe("rephrase", row.rephrase_prompt, edit.target_new or "", edit)
    for kind, prompt, answer in questions_of(row.portability, PORTABILITY):
        yield right_probe(kind, prompt, answer, edit)
    for kind, prompt, answer in questions_of(row.locality, LOCALITY):
        yield same_probe(kind, prompt, answer)
