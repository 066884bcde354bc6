"""Rows of a file of facts, and the cases that they become."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from emend.evals.case import Case
from emend.evals.data.benchmarks.rows import golds
from emend.memory.edit import Edit, FrozenModel
from emend.memory.probe import Probe, Style
from emend.memory.retrieval.tokens import words
from emend.memory.store.jsonl import edit_from

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
"""Soft hyphen, zero-width space and marks of direction; joiners, which words and emoji need, are not among them."""
_ARTEFACTS = {
    r"nan|NaN|NaT|<NA>|#N/A|NULL": "what pandas and Excel write for an empty cell: leave it empty",
    r"#(REF|VALUE|NAME\?|DIV/0|NUM|NULL)!?": "an error of Excel's: correct the cell",
    r"\d{3,}\.0+": "a whole number that pandas or Excel has written with a decimal: write it without",
    r"\d{4}-\d\d-\d\d[ T]00:00:00(\.0+)?": "a date that pandas or Excel has written with a time: write it without",
    r"\d(\.\d+)?E\+\d+": "a long number that Excel has rounded: write all of its digits",
}
"""Texts that programs write in place of what was meant, and that no answer can match; patterns of whole texts."""


def _cleaned(value: Any) -> Any:
    """Text without invisible characters; a number is its digits.

    Raises:
        ValueError: it is none that anyone has written.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return value
    text = _INVISIBLE.sub("", value)
    for pattern, meaning in _ARTEFACTS.items():
        if re.fullmatch(pattern, text.strip()):
            raise ValueError(f"{meaning}")
    return text


Text = Annotated[str, BeforeValidator(_cleaned), StringConstraints(strip_whitespace=True, min_length=1)]
NOT_KNOWN = "I do not know."
"""Right answer to a question that nothing answers."""
LONG = 30
"""Words of an answer from which on a whole reply is compared with it by its words and meaning, and not for equality."""
LONG_REPLY = 512
"""Most tokens of a reply to a question with a long answer, as in UnKEBench's code."""
QUESTION_MARKS = ("?", "？", "؟")
"""Also those of Chinese and Japanese, and of Arabic."""
FACT_FIELDS = ("subject", "relation", "object", "prompt", "document", "event", "time")


class QuestionRow(FrozenModel):
    """A question about something else than the fact itself."""

    question: Text = Field(description="Question, or text to be continued if it does not end in a question mark.")
    answer: Text | None = Field(
        default=None, description="Right answer; without one, the answer must stay what it was before the edit."
    )
    aliases: tuple[Text, ...] = Field(default=(), description="Other right answers.")
    documents: tuple[Text, ...] = Field(
        default=(),
        description="Texts that the answer needs besides the fact, applied with it: near_locality, multihop.",
    )
    tags: dict[str, str | int | float | bool] = Field(default={}, description="Further columns of its record.")


class FactRow(FrozenModel):
    """One fact, and the questions that measure what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    subject: Text | None = Field(default=None, description="Subject of a fact.")
    relation: Text | None = Field(default=None, description="Relation of a fact.")
    object: Text | None = Field(default=None, description="New object of a fact.")
    prompt: Annotated[str, BeforeValidator(_cleaned)] | None = Field(
        default=None, description="Sentence up to the object with {} for the subject, which weight editors train on."
    )
    document: Text | None = Field(default=None, description="Text that states the new fact, in place of the three.")
    event: Text | None = Field(default=None, description="Event, in place of a fact; needs time.")
    time: str | None = Field(default=None, description="Date from which it holds, such as 2026-05-31.")
    question: Text | None = Field(default=None, description="Question about the fact; default: the prompt.")
    answer: Text | None = Field(default=None, description="Right answer now; default: the object.")
    aliases: tuple[Text, ...] = Field(default=(), description="Other right answers.")
    old_answer: Text | None = Field(default=None, description="Answer before the edit, for scores by likelihood.")
    paraphrases: tuple[Text, ...] = Field(default=(), description="The question in other words.")
    locality: tuple[QuestionRow, ...] = Field(default=(), description="Questions that the edit must leave alone.")
    near_locality: tuple[QuestionRow, ...] = Field(
        default=(),
        description="Other facts of the same subject or relation; each needs an answer.",
    )
    multihop: tuple[QuestionRow, ...] = Field(
        default=(), description="Questions whose answer follows from the fact and others; each needs an answer."
    )
    reasoning: tuple[QuestionRow, ...] = Field(
        default=(), description="Questions whose answer is yes or no by the fact; each needs one."
    )
    sub_questions: tuple[QuestionRow, ...] = Field(
        default=(), description="Questions about parts of a long answer; each needs an answer."
    )
    abstention: tuple[Text, ...] = Field(
        default=(), description="Questions that nothing here answers: right is to say that one does not know."
    )
    tags: dict[str, str | int | float | bool] = Field(default={}, description="Further columns of the records.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.document or self.event) and (self.subject or self.relation or self.object):
            raise ValueError("the row is a triplet and a text: leave out subject, relation and object, or the text")
        _ = self.edit
        if self.answer is None and self.object is None:
            raise ValueError("field 'answer' is missing: say what the right answer is now")
        if self.question is None and self.prompt is None:
            raise ValueError("field 'question' is missing: a fact without a prompt needs a question")
        if any("{}" in text for text in (self.question or "", *self.paraphrases)):
            raise ValueError("field 'question' has {}, which is for prompts: write the subject out")
        for name in ("multihop", "near_locality", "sub_questions"):
            if any(row.answer is None for row in getattr(self, name)):
                raise ValueError(f"field '{name}': each question needs an answer")
        if any((row.answer or "").lower() not in ("yes", "no") for row in self.reasoning):
            raise ValueError("field 'reasoning': the answer to each question is yes or no")
        return self

    @property
    def edit(self) -> Edit:
        """The edit of the fact; rows of one document or triplet have one edit, whatever they ask."""
        fields = {name: getattr(self, name) for name in FACT_FIELDS if getattr(self, name) is not None}
        edit = edit_from(fields)
        if edit.form == "document":
            whole = self.is_long and self.answer == self.document
            known = {"question": self.question, "target_new": self.answer} if whole else {}
            return Edit.model_validate(edit.model_dump(exclude={"id"}) | known) if known else edit
        known = {"question": self.question or "", "target_true": self.old_answer or ""}
        # A triplet is one edit in all of its rows; an event is learnt by its row's question and answer.
        left_out = set() if edit.form == "triplet" else {"id"}
        plain = edit.model_dump(exclude=left_out) | {name: text for name, text in known.items() if text}
        if not plain["target_new"]:
            plain["target_new"] = self.answer or ""
        return Edit.model_validate(plain)

    @property
    def is_long(self) -> bool:
        """True if the answer is a text, which no reply equals."""
        return len(words(self.answer or "")) > LONG and not self.aliases

    @property
    def case(self) -> Case:
        """The case of the fact, with the documents that its questions need."""
        edit = self.edit
        texts = [text for row in (*self.multihop, *self.near_locality) for text in row.documents]
        edits = {each.id: each for each in (edit, *map(_document, texts))}
        return Case(edits=tuple(edits.values()), probes=tuple(self._probes(edit)), tags=self.tags)

    def _probes(self, edit: Edit) -> Iterator[Probe]:
        right = golds(self.answer or self.object or "", self.aliases)
        about: dict[str, Any] = {"edit_ids": (edit.id,), "subject": edit.subject}
        scorers = ("exact_match", "likelihood") if self.old_answer else ("exact_match",)
        for place, question in enumerate((self.question or edit.cloze, *self.paraphrases)):
            if self.is_long:
                yield _long("long_paraphrase" if place else "long_answer", question, right, about)
            else:
                kind = "paraphrase" if place else "efficacy"
                yield _probe(kind, question, right, rival=self.old_answer, scorers=scorers, **about)
        for row in self.sub_questions:
            yield _answered("sub_question", row, (edit.id,))
        for row in self.multihop:
            yield _answered("multihop", row, (edit.id, *_ids(row)))
        for row in self.reasoning:
            fields: dict[str, Any] = {"choices": ("yes", "no"), "scorers": ("choice",), "tags": row.tags}
            yield _probe("reasoning", row.question, (str(row.answer).lower(),), edit_ids=(edit.id,), **fields)
        for row in self.near_locality:
            yield _answered("near_locality", row, _ids(row) or (edit.id,))
        for row in self.locality:
            yield _locality(row)
        for question in self.abstention:
            yield _probe("abstention", question, (NOT_KNOWN,), edit_ids=(edit.id,), scorers=("abstention",))


def _document(text: str) -> Edit:
    return edit_from({"document": text})


def _ids(row: QuestionRow) -> tuple[str, ...]:
    return tuple(_document(text).id for text in row.documents)


def _answered(kind: str, row: QuestionRow, edit_ids: tuple[str, ...]) -> Probe:
    return _probe(kind, row.question, golds(row.answer or "", row.aliases), edit_ids=edit_ids, tags=row.tags)


def _long(kind: str, question: str, gold: tuple[str, ...], about: dict[str, Any]) -> Probe:
    return _probe(
        kind, question, gold, scorers=("rouge_l", "similarity"), reading="whole", new_tokens=LONG_REPLY, **about
    )


def _locality(row: QuestionRow) -> Probe:
    about: dict[str, Any] = {"in_scope": False, "tags": row.tags}
    if row.answer is None:
        return _probe("locality", row.question, ("",), scorers=("agreement",), **about)
    scorers = ("exact_match", "agreement")
    return _probe("locality", row.question, golds(row.answer, row.aliases), scorers=scorers, **about)


def _probe(kind: str, question: str, gold: tuple[str, ...], **fields: Any) -> Probe:
    style: Style = "question" if question.endswith(QUESTION_MARKS) else "cloze"
    return Probe(kind=kind, prompt=question, style=style, gold=gold, **fields)
