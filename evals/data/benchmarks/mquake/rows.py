"""MQuAKE's rows.

One row, shortened (`requested_rewrite` is a list here, and a dict in files made after CounterFact's fashion):

    {"case_id": 7, "requested_rewrite": [{"prompt": "{} is a citizen of", "relation_id": "P27", "subject": "Ida Holt",
      "target_new": {"str": "Iceland", "id": "Q189"}, "target_true": {"str": "Norway", "id": "Q20"},
      "question": "What is the country of citizenship of Ida Holt?"}],
     "questions": ["What is the capital of the country of which Ida Holt is a citizen?", ..],
     "answer": "Oslo", "answer_alias": ["Christiania"], "new_answer": "Reykjavík", "new_answer_alias": [],
     "single_hops": [{"question": .., "cloze": .., "answer": "Norway", "answer_alias": [..]}, ..],
     "new_single_hops": [{"question": .., "cloze": .., "answer": "Iceland", "answer_alias": [..]}, ..],
     "orig": {"new_triples": [["Q1", "P27", "Q189"], ["Q189", "P36", "Q1764"]],
              "edit_triples": [["Q1", "P27", "Q189"]], ..}}
"""

from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from emend.evals.data.benchmarks.counterfact.rows import WikidataRewrite
from emend.evals.data.benchmarks.rows import ChainTriples, HopRow, NumberedRow, Text, aliases_field
from emend.memory.edit import Edit


def _listed(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class ChainRewrite(WikidataRewrite):
    """One edit of a chain; in some files the aliases belong to the edit and not to the hop."""

    question: str = ""
    answer_new_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_new_alias"))
    answer_true_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_true_alias"))

    @property
    def edit(self) -> Edit:
        """The edit in one sentence."""
        true = self.target_true.label
        return Edit.from_triplet(self.triplet, self.prompt, question=self.question, target_true=true)

    @property
    def cloze(self) -> str:
        """The prompt with the subject filled in."""
        return self.prompt.replace("{}", self.subject, 1)


class ChainHop(HopRow):
    """One hop of a chain, as a question and as a cloze."""

    question: Text
    cloze: Text


class ChainRow(NumberedRow):
    """A row of any MQuAKE file; `answer_extended` (MQuAKE-T) holds further correct answers from before the edit."""

    id: int = Field(validation_alias="case_id")
    requested_rewrite: Annotated[tuple[ChainRewrite, ...], BeforeValidator(_listed), Field(min_length=1)]
    questions: Annotated[tuple[Text, ...], Field(min_length=1)]
    answer: Text
    answer_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_alias"))
    answer_extended: tuple[str, ...] = ()
    new_answer: Text
    new_answer_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("new_answer_alias"))
    orig: ChainTriples
    single_hops: tuple[ChainHop, ...]
    new_single_hops: tuple[ChainHop, ...]

    @field_validator("new_single_hops")
    @classmethod
    def _hop_per_triple(cls, hops: tuple[ChainHop, ...], info: ValidationInfo) -> tuple[ChainHop, ...]:
        orig = info.data.get("orig")
        if orig and len(hops) != len(orig.new_triples):
            raise ValueError(f"{len(hops)} hops but {len(orig.new_triples)} in 'orig.new_triples'")
        return hops

    @property
    def hops(self) -> int:
        """Number of hops of the questions."""
        return len(self.new_single_hops)

    def is_edited(self, hop: ChainHop) -> bool:
        """Return True if an edit of the row asks for the hop."""
        return any(rewrite.cloze == hop.cloze or rewrite.question == hop.question for rewrite in self.requested_rewrite)
