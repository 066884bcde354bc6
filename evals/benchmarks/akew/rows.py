r"""AKEW's rows and what each says of itself; the schema is told in `akew`."""

import re
from typing import Annotated, Any

from pydantic import AliasChoices, Field, StringConstraints, field_validator, model_validator

from emend.evals.benchmarks.files import NumberedRow, Row

Text = Annotated[str, StringConstraints(min_length=1)]
Key = tuple[str, str]


class Entity(Row):
    """A name and its Wikidata id; the file calls the name `str`."""

    label: Text = Field(validation_alias="str")
    id: str | None = None


class TripletRow(Row):
    """One triplet as a language model extracted it, which may lack a part; `prompt` has a `{}` for the subject."""

    subject: str | None = None
    prompt: str | None = None
    target: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it has all three parts and one place for the subject."""
        return all(part and part.strip() for part in (self.subject, self.prompt, self.target)) and (
            str(self.prompt).count("{}") == 1
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """Subject, prompt and target; "" for one that is not there."""
        return self.subject or "", self.prompt or "", self.target or ""

    @property
    def text(self) -> str:
        """The triplet in one line."""
        subject, prompt, target = self.parts
        return f"{prompt.replace('{}', subject, 1)} {target}"


class Period(Row):
    """WikiUpdate's span of time in which a target held."""

    start_time: str | None = None
    end_time: str | None = None


class Rewrite(Row):
    """One edit; aliases are there in CounterFact and WikiUpdate only, times in WikiUpdate only."""

    subject: Text
    prompt: str = ""
    question: str = ""
    relation: str = ""
    relation_id: str | None = None
    target_new: Entity
    target_true: Entity
    fact_new: str = ""
    fact_new_uns: Text
    unsfact_triplets_GPT: tuple[TripletRow, ...]
    verify_unsfact_GPT: bool = True
    answer_new: str = ""
    answer_new_alias: tuple[str, ...] = Field(
        (), validation_alias=AliasChoices("answer_new_alias", "answer_new_aliases")
    )
    time_new: Period | None = None

    @field_validator("prompt")
    @classmethod
    def _one_slot(cls, prompt: str) -> str:
        return one_slot(prompt) if prompt else prompt

    @model_validator(mode="after")
    def _askable(self) -> "Rewrite":
        if not (self.prompt or self.question or self.relation):
            raise ValueError("one of prompt, question and relation is needed")
        return self

    @property
    def since(self) -> str | None:
        """From when on the new target holds, where the record says so."""
        return self.time_new.start_time if self.time_new else None

    @property
    def cloze_prompt(self) -> str:
        """The cloze with `{}`; where the record has none, made of the relation's name or else ""."""
        return self.prompt or (f"The {self.relation} of {{}} is" if self.relation else "")

    @property
    def cloze(self) -> str:
        """The cloze with the subject filled in."""
        return self.cloze_prompt.replace("{}", self.subject, 1)

    @property
    def fact(self) -> str:
        """The new fact in one sentence: as the record has it, else from cloze and target."""
        return self.fact_new or f"{self.cloze or self.question} {self.target_new.label}."

    @property
    def asks(self) -> Key:
        """Subject and relation: two edits with the same ones and unlike targets cannot stand together."""
        return self.subject, self.relation_id or self.cloze or self.question

    @property
    def content(self) -> tuple[str, str, str]:
        """What makes two edits the same: subject, relation, new target."""
        return *self.asks, self.target_new.label

    @property
    def triplets(self) -> tuple[TripletRow, ...]:
        """The extracted triplets that are whole."""
        return tuple(row for row in self.unsfact_triplets_GPT if row.whole)

    @property
    def recoverable(self) -> bool:
        """Whether one extracted triplet has both the subject and the new target in it, in any case of letters."""
        needed = self.subject.lower(), self.target_new.label.lower()
        stated = (row.text.lower() for row in self.triplets)
        return any(all(name in text for name in needed) for text in stated)


class Hop(Row):
    """One step of a multi-hop question."""

    question: str
    answer: Text
    answer_alias: tuple[str, ...] = ()


class Chains(Row):
    """Wikidata ids of the hops that hold after the record's edits, and of these edits."""

    new_triples: tuple[tuple[str, str, str], ...]
    edit_triples: tuple[tuple[str, str, str], ...]


class AkewRow(NumberedRow):
    """A record of CounterFact.json or WikiUpdate.json: there `requested_rewrite` is one edit, not a list."""

    id: int = Field(validation_alias="case_id")
    requested_rewrite: tuple[Rewrite, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _even(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        told = dict(values)
        if isinstance(told.get("requested_rewrite"), dict):
            told["requested_rewrite"] = [told["requested_rewrite"]]
        if "case_id" not in told and (number := re.search(r"\d+", str(told.get("paper_example", "")))):
            told["case_id"] = int(number.group())  # the examples that the paper prints have no id of their own
        return told

    @property
    def hops(self) -> int:
        """Number of hops of the questions; 0 where the data set asks none."""
        return 0

    def aliases(self, rewrite: Rewrite) -> tuple[str, ...]:
        """Other right answers about an edit."""
        return (rewrite.answer_new, *rewrite.answer_new_alias)


class MultiHopRow(AkewRow):
    """A record of MQuAKE-CF.json: one to four edits, and three wordings of one multi-hop question."""

    questions: tuple[Text, Text, Text]
    answer: Text
    new_answer: Text
    new_answer_alias: tuple[str, ...] = ()
    new_single_hops: tuple[Hop, ...] = Field(min_length=1)
    orig: Chains

    @property
    def hops(self) -> int:
        """Number of hops of the questions."""
        return len(self.new_single_hops)

    def aliases(self, rewrite: Rewrite) -> tuple[str, ...]:
        """Those of the hop that asks about the edit, as edits have none of their own here."""
        told = super().aliases(rewrite)
        hops = (hop for hop in self.new_single_hops if hop.question == rewrite.question)
        return (*told, *(name for hop in hops for name in (hop.answer, *hop.answer_alias)))


def one_slot(prompt: str) -> str:
    """The prompt, if it has exactly one `{}`; other braces are text.

    Raises:
        ValueError: it has none or several.
    """
    if prompt.count("{}") != 1:
        raise ValueError("exactly one {} expected")
    return prompt
