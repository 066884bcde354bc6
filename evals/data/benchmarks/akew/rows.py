"""AKEW's rows and their properties; `akew.benchmark` shows the schema."""

import re
from typing import Any

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
    """One triplet as a language model extracted it, which may lack a part; `prompt` has a `{}` for the subject."""

    subject: str | None = None
    prompt: str | None = None
    target: str | None = None

    @property
    def complete(self) -> bool:
        """True if it has all three parts and one slot for the subject."""
        return all(part and part.strip() for part in (self.subject, self.prompt, self.target)) and (
            str(self.prompt).count("{}") == 1
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """Subject, prompt and target; "" for a missing one."""
        return self.subject or "", self.prompt or "", self.target or ""

    @property
    def text(self) -> str:
        """The triplet in one line."""
        subject, prompt, target = self.parts
        return f"{prompt.replace('{}', subject, 1)} {target}"


class ValidPeriod(BenchmarkRow):
    """WikiUpdate's period in which a target is valid."""

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
    answer_new_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_new_alias"))
    time_new: ValidPeriod | None = None

    @field_validator("prompt")
    @classmethod
    def _one_slot(cls, prompt: str) -> str:
        return check_slot(prompt) if prompt else prompt

    @model_validator(mode="after")
    def _askable(self) -> "AkewRewrite":
        if not (self.prompt or self.question or self.relation):
            raise ValueError("one of prompt, question and relation is needed")
        return self

    @property
    def old_label(self) -> str | None:
        """The old target; None where the record knows of none."""
        return self.target_true.label if self.target_true else None

    @property
    def since(self) -> str | None:
        """Start of the new target's validity, where the record gives it."""
        return self.time_new.start_time if self.time_new else None

    @property
    def cloze_prompt(self) -> str:
        """The cloze with `{}`; where the record has none, one made of the relation's name, else ""."""
        return self.prompt or (f"The {self.relation} of {{}} is" if self.relation else "")

    @property
    def cloze(self) -> str:
        """The cloze with the subject filled in."""
        return self.cloze_prompt.replace("{}", self.subject, 1)

    @property
    def fact(self) -> str:
        """The new fact in one sentence: the record's own, else made of cloze and target."""
        return self.fact_new or f"{self.cloze or self.question} {self.target_new.label}."

    @property
    def key(self) -> Key:
        """Subject and relation: two edits with the same key and different targets contradict each other."""
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
        """True if one extracted triplet names both the subject and the new target, in any case."""
        names = self.subject.lower(), self.target_new.label.lower()
        texts = (row.text.lower() for row in self.triplets)
        return any(all(name in text for name in names) for text in texts)


class AkewRow(NumberedRow):
    """A record of CounterFact.json or WikiUpdate.json: there `requested_rewrite` is one edit, not a list."""

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
        if "case_id" not in record and (number := re.search(r"\d+", str(record.get("paper_example", "")))):
            record["case_id"] = int(number.group())  # the examples that the paper prints have no id of their own
        return record

    @property
    def hops(self) -> int:
        """Number of hops of the questions; 0 in a data set without questions."""
        return 0

    def aliases(self, rewrite: AkewRewrite) -> tuple[str, ...]:
        """Further correct answers about an edit."""
        return (rewrite.answer_new, *rewrite.answer_new_alias)


class MultiHopRow(AkewRow):
    """A record of MQuAKE-CF.json: one to four edits, and three wordings of one multi-hop question."""

    questions: tuple[Text, Text, Text]
    answer: Text
    new_answer: Text
    new_answer_alias: tuple[str, ...] = ()
    new_single_hops: tuple[HopRow, ...] = Field(min_length=1)
    orig: ChainTriples

    @property
    def hops(self) -> int:
        """Number of hops of the questions."""
        return len(self.new_single_hops)

    def aliases(self, rewrite: AkewRewrite) -> tuple[str, ...]:
        """Answer and aliases of the hop that asks about the edit, as edits have no aliases here."""
        hops = (hop for hop in self.new_single_hops if hop.question == rewrite.question)
        return (*super().aliases(rewrite), *(name for hop in hops for name in (hop.answer, *hop.answer_alias)))
