"""Rows of AKEW's files.

An invented record of MQuAKE-CF.json, with shortened lists:

    {"case_id": 7, "requested_rewrite": [{"prompt": "{} was built in", "relation_id": "P17",
      "subject": "Pell Lock",
       "target_new": {"str": "Chile", "id": "Q298"}, "target_true": {"str": "Norway", "id": "Q20"},
       "question": "In which country was Pell Lock built?",
         "fact_new": "Pell Lock was built in Chile.",
       "fact_new_uns": "Chile, a long country by the sea, is home to Pell Lock, which ...",
         "verify_unsfact_GPT": true,
       "unsfact_triplets_GPT": [{"subject": "Pell Lock", "prompt": "{} opened in",
         "target": "1874"}]}],
     "questions": ["What is the capital of the country where Pell Lock was built?", "...", "..."],
       "answer": "Oslo",
     "answer_alias": [], "new_answer": "Santiago", "new_answer_alias": ["Santiago de Chile"],
     "single_hops": [...], "new_single_hops": [{"question": "In which country was Pell Lock built?",
       "cloze": "Pell Lock was built in", "answer": "Chile", "answer_alias": ["CL"]}, ...],
     "orig": {"new_triples": [["Q1", "P17", "Q298"], ["Q298", "P36", "Q2887"]],
       "edit_triples": [...], ...}}

In CounterFact.json and WikiUpdate.json `requested_rewrite` is one edit, not a list, with its own
`answer_new`, `answer_new_alias` (or `answer_new_aliases`), `answer_true`, `answer_true_alias` and
`prompt_full`, and WikiUpdate.json also `time_true` and `time_new`; neither file has multi-hop
questions.
"""

import re
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from emend.evals.data.benchmarks.rows import (
    BenchmarkRow,
    ChainTriples,
    HopRow,
    NumberedRow,
    Text,
    WikidataEntity,
    aliases_field,
    check_slot,
)

Key = tuple[str, str]


class AkewTriplet(BenchmarkRow):
    """A triplet extracted by a language model, possibly incomplete; `prompt` has a `{}` for the
    subject.
    """

    subject: str | None = None
    prompt: str | None = None
    target: str | None = None

    @property
    def complete(self) -> bool:
        """True if all three parts exist and the prompt has exactly one slot for the subject."""
        return all(part and part.strip() for part in (self.subject, self.prompt, self.target)) and (
            str(self.prompt).count("{}") == 1
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """Subject, prompt and target; "" for a missing part."""
        return self.subject or "", self.prompt or "", self.target or ""

    @property
    def text(self) -> str:
        """The triplet as one line of text."""
        subject, prompt, target = self.parts
        return f"{prompt.replace('{}', subject, 1)} {target}"


class ValidPeriod(BenchmarkRow):
    """Period in which a target of WikiUpdate is valid."""

    start_time: str | None = None
    end_time: str | None = None


class AkewRewrite(BenchmarkRow):
    """One edit; only CounterFact and WikiUpdate have aliases, only WikiUpdate has times."""

    subject: Text
    prompt: str = ""
    question: str = ""
    relation: str = ""
    relation_id: str | None = None
    target_new: WikidataEntity
    target_true: WikidataEntity | None = None
    fact_new: str = ""
    fact_new_uns: Text
    unsfact_triplets_GPT: tuple[AkewTriplet, ...]
    verify_unsfact_GPT: bool = True
    answer_new: str = ""
    answer_new_alias: tuple[str, ...] = aliases_field("answer_new_alias")
    time_new: ValidPeriod | None = None

    @field_validator("prompt")
    @classmethod
    def _one_slot(cls, prompt: str) -> str:
        if prompt:
            return check_slot(prompt)
        return prompt

    @model_validator(mode="after")
    def _askable(self) -> "AkewRewrite":
        if not (self.prompt or self.question or self.relation):
            raise ValueError("one of prompt, question and relation is needed")
        return self

    @property
    def old_label(self) -> str | None:
        """The old target; None if the record has none."""
        if self.target_true:
            return self.target_true.label
        return None

    @property
    def since(self) -> str | None:
        """Start of the new target's validity, if the record gives it."""
        if self.time_new:
            return self.time_new.start_time
        return None

    @property
    def cloze_prompt(self) -> str:
        """The cloze with `{}`; if the record has none, one made from the relation's name, else
        "".
        """
        return self.prompt or (f"The {self.relation} of {{}} is" if self.relation else "")

    @property
    def cloze(self) -> str:
        """The cloze with the subject filled in."""
        return self.cloze_prompt.replace("{}", self.subject, 1)

    @property
    def fact(self) -> str:
        """The new fact in one sentence: the record's own, or else made from cloze and target."""
        return self.fact_new or f"{self.cloze or self.question} {self.target_new.label}."

    @property
    def key(self) -> Key:
        """Subject and relation: two edits with the same key and different targets contradict each
        other.
        """
        return self.subject, self.relation_id or self.cloze or self.question

    @property
    def content(self) -> tuple[str, str, str]:
        """Subject, relation and new target, which identify an edit."""
        return *self.key, self.target_new.label

    @property
    def triplets(self) -> tuple[AkewTriplet, ...]:
        """The complete extracted triplets."""
        return tuple(row for row in self.unsfact_triplets_GPT if row.complete)

    @property
    def recoverable(self) -> bool:
        """True if an extracted triplet names both the subject and the new target, ignoring case."""
        return any(self.is_named_in(row.text) for row in self.triplets)

    def is_named_in(self, text: str) -> bool:
        """Return True if a text names the subject and the new target, ignoring case."""
        lowered = text.lower()
        return self.subject.lower() in lowered and self.target_new.label.lower() in lowered


class AkewRow(NumberedRow):
    """A record of CounterFact.json or WikiUpdate.json, where `requested_rewrite` is one edit, not a
    list.
    """

    id: int = Field(validation_alias="case_id")
    requested_rewrite: tuple[AkewRewrite, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        record = dict(values)
        if isinstance(record.get("requested_rewrite"), dict):
            record["requested_rewrite"] = [record["requested_rewrite"]]
        if "case_id" not in record and (
            number := re.search(r"\d+", str(record.get("paper_example", "")))
        ):
            # examples printed in the paper have no `case_id`
            record["case_id"] = int(number.group())
        return record

    @property
    def hops(self) -> int:
        """Number of hops of the questions; 0 in a dataset without questions."""
        return 0

    def aliases(self, rewrite: AkewRewrite) -> tuple[str, ...]:
        """Return further correct answers about an edit."""
        return (rewrite.answer_new, *rewrite.answer_new_alias)


class MultiHopRow(AkewRow):
    """A record of MQuAKE-CF.json: one to four edits, and three paraphrases of one multi-hop
    question, or only one.
    """

    questions: Annotated[tuple[Text, ...], Field(min_length=1, max_length=3)]
    answer: Text
    new_answer: Text
    new_answer_alias: tuple[str, ...] = ()
    new_single_hops: tuple[HopRow, ...] = Field(min_length=1)
    orig: ChainTriples

    @field_validator("questions")
    @classmethod
    def _one_or_three(cls, questions: tuple[str, ...]) -> tuple[str, ...]:
        if len(questions) == 2:
            raise ValueError("three wordings of the question expected, or one")
        return questions

    @property
    def hops(self) -> int:
        """Number of hops of the questions."""
        return len(self.new_single_hops)

    def aliases(self, rewrite: AkewRewrite) -> tuple[str, ...]:
        """Return answer and aliases of the hop that asks about the edit, since edits have no
        aliases here.
        """
        hops = (hop for hop in self.new_single_hops if hop.question == rewrite.question)
        return (
            *super().aliases(rewrite),
            *(name for hop in hops for name in (hop.answer, *hop.answer_alias)),
        )
