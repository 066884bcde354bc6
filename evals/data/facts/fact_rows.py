"""Rows of a fact file, and the cases made from them."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.rows import golds
from emend.evals.metrics.hops import distinct_golds
from emend.memory.edit import Edit, FrozenModel
from emend.memory.probe import Probe, Style
from emend.memory.relations.cloze import is_worded
from emend.memory.relations.statement import statement_of
from emend.memory.retrieval.tokens import words
from emend.memory.store.jsonl import edit_from

# Soft hyphen, zero-width space and direction marks, but not joiners, which words and emoji need.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
# Patterns of texts (full match) that programs write in place of the intended value and that no
# answer matches.
_ARTEFACTS = {
    r"nan|NaN|NaT|<NA>|#N/A|NULL": "the pandas or Excel value of an empty cell: leave it empty",
    r"#(REF|VALUE|NAME\?|DIV/0|NUM|NULL)!?": "an Excel error: correct the cell",
    r"\d{3,}\.0+": "a whole number that pandas or Excel has written with a decimal: write it "
    "without",
    r"\d{4}-\d\d-\d\d[ T]00:00:00(\.0+)?": "a date that pandas or Excel has written with a time: "
    "write it without",
    r"\d(\.\d+)?E\+\d+": "a long number that Excel has rounded: write all of its digits",
}


def _cleaned(value: Any) -> Any:
    """Return text without invisible characters; numbers are converted to text.

    Raises:
        ValueError: the text is an artefact of a program.
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


Text = Annotated[
    str, BeforeValidator(_cleaned), StringConstraints(strip_whitespace=True, min_length=1)
]
# Right answer to an unanswerable question.
NOT_KNOWN = "I do not know."
# Maximum number of words of a short answer; with longer ones, whole replies are compared by words
# and meaning, not for equality.
LONG = 30
# Maximum number of tokens of a reply to a question with a long answer, as in UnKEBench's code.
LONG_REPLY = 512
# Question marks, including CJK, Arabic, Armenian, Ethiopic and Greek ones, and characters that may
# follow them at the end of a quotation.
QUESTION_MARKS = ("?", "？", "؟", "՞", "፧", "\u037e")
CLOSING = " \"'”’»)]}」』）*_"
GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
FACT_FIELDS = ("subject", "relation", "object", "prompt", "document", "event", "time")


class QuestionRow(FrozenModel):
    """A question about something other than the fact itself."""

    question: Text = Field(
        description="Question, or text to be continued if it does not end in a question mark."
    )
    answer: Text | None = Field(
        default=None,
        description="Right answer; without one, the answer must stay what it was before the edit.",
    )
    aliases: tuple[Text, ...] = Field(default=(), description="Other right answers.")
    documents: tuple[Text, ...] = Field(
        default=(),
        description="Texts that the answer needs besides the fact, applied with it: near_locality, "
        "multihop.",
    )
    hops: tuple[Text, ...] = Field(
        default=(),
        description="Answers of the steps before the last one, in order, by which the steps of "
        "stepwise editors are scored: multihop.",
    )
    tags: dict[str, str | int | float | bool] = Field(
        default={}, description="Further columns of its record."
    )

    @property
    def hop_golds(self) -> tuple[tuple[str, ...], ...]:
        """The accepted answers of each hop; empty if they are not given."""
        if not self.hops:
            return ()
        last = golds(self.answer or "", self.aliases)
        return distinct_golds([*((text,) for text in self.hops), last])


class FactRow(FrozenModel):
    """A fact, and the questions that measure the effect of its edit."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    subject: Text | None = Field(default=None, description="Subject of a fact.")
    relation: Text | None = Field(default=None, description="Relation of a fact.")
    object: Text | None = Field(default=None, description="New object of a fact.")
    prompt: Annotated[str, BeforeValidator(_cleaned)] | None = Field(
        default=None,
        description="Sentence up to the object with {} for the subject, which weight "
        "editors train on; default: made of the relation.",
    )
    document: Text | None = Field(
        default=None, description="Text that states the new fact, in place of the three."
    )
    event: Text | None = Field(default=None, description="Event, in place of a fact; needs time.")
    time: str | None = Field(
        default=None, description="Date from which it holds, such as 2026-05-31."
    )
    question: Text | None = Field(
        default=None, description="Question about the fact; default: the prompt."
    )
    answer: Text | None = Field(default=None, description="Right answer now; default: the object.")
    aliases: tuple[Text, ...] = Field(default=(), description="Other right answers.")
    old_answer: Text | None = Field(
        default=None, description="Answer before the edit, for scores by likelihood."
    )
    paraphrases: tuple[Text, ...] = Field(default=(), description="The question in other words.")
    locality: tuple[QuestionRow, ...] = Field(
        default=(), description="Questions that the edit must leave alone."
    )
    near_locality: tuple[QuestionRow, ...] = Field(
        default=(),
        description="Other facts of the same subject or relation that the row states in documents, "
        "each with its answer; a neighbour that must stay as it is goes into locality.",
    )
    multihop: tuple[QuestionRow, ...] = Field(
        default=(),
        description="Questions whose answer follows from the fact and others; each "
        "needs an answer.",
    )
    reasoning: tuple[QuestionRow, ...] = Field(
        default=(), description="Questions whose answer is yes or no by the fact; each needs one."
    )
    sub_questions: tuple[QuestionRow, ...] = Field(
        default=(), description="Questions about parts of a long answer; each needs an answer."
    )
    abstention: tuple[Text, ...] = Field(
        default=(),
        description="Questions that nothing here answers: right is to say that one does not know.",
    )
    tags: dict[str, str | int | float | bool] = Field(
        default={}, description="Further columns of the records."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.document or self.event) and (self.subject or self.relation or self.object):
            raise ValueError(
                "the row is a triplet and a text: leave out subject, relation and "
                "object, or the text"
            )
        is_answered = self.answer is not None or self.object is not None
        if is_answered or not self._is_question:
            _ = self.edit
        if not is_answered:
            raise ValueError("field 'answer' is missing: say what the right answer is now")
        if self.question is None and not self.edit.prompt:
            raise ValueError(
                "field 'question' is missing: a text needs a question, and a fact a relation"
            )
        if any("{}" in text for text in (self.question or "", *self.paraphrases)):
            raise ValueError(
                "field 'question' has {}, a placeholder of prompts: write the subject out"
            )
        for name in ("multihop", "near_locality", "sub_questions"):
            if any(row.answer is None for row in getattr(self, name)):
                raise ValueError(f"field '{name}': each question needs an answer")
        for name in ("locality", "near_locality", "reasoning", "sub_questions"):
            if any(row.hops for row in getattr(self, name)):
                raise ValueError(f"field '{name}': 'hops' are for questions of multihop")
        if any((row.answer or "").lower() not in ("yes", "no") for row in self.reasoning):
            raise ValueError("field 'reasoning': the answer to each question is yes or no")
        return self

    @property
    def edit(self) -> Edit:
        """The edit of the fact; rows with the same document or triplet have the same edit, whatever
        their questions.
        """
        if self._is_question:
            return self._edit_of_question
        fields = {
            name: getattr(self, name) for name in FACT_FIELDS if getattr(self, name) is not None
        }
        edit = edit_from(fields | self._prompt_of_question)
        if edit.form == "document":
            whole = self.is_long and self.answer == self.document
            if whole:
                known = {"question": self.question, "target_new": self.answer}
            else:
                known = {}
            if known:
                return Edit.model_validate(edit.model_dump(exclude={"id"}) | known)
            return edit
        known = {"question": self.question or "", "target_true": self.old_answer or ""}
        # A triplet is the same edit in all its rows; an edit of an event depends on the question
        # and answer of its row.
        left_out = set() if edit.form == "triplet" else {"id"}
        plain = edit.model_dump(exclude=left_out) | {
            name: text for name, text in known.items() if text
        }
        if not plain["target_new"]:
            plain["target_new"] = self.answer or ""
        return Edit.model_validate(plain)

    @property
    def _is_question(self) -> bool:
        """True if the row has no fact, only a question with its answer."""
        return self.question is not None and not any(
            getattr(self, name) for name in FACT_FIELDS if name != "time"
        )

    @property
    def _edit_of_question(self) -> Edit:
        """Statement that answers the question, as a document."""
        answer = self.answer or ""
        edit = edit_from({"document": statement_of(self.question or "", answer)})
        plain = edit.model_dump(exclude={"id"}) | {
            "question": self.question,
            "target_new": answer,
            "target_true": self.old_answer or "",
            "time": self.time,
        }
        return Edit.model_validate(plain)

    @property
    def _prompt_of_question(self) -> dict[str, str]:
        """The question as the prompt of a fact whose relation is not worded; empty for other
        rows.
        """
        question, subject = self.question or "", self.subject or ""
        is_needed = not self.prompt and self.relation and not is_worded(self.relation)
        if is_needed and subject and question.count(subject) == 1:
            return {"prompt": question.replace(subject, "{}")}
        return {}

    @property
    def is_long(self) -> bool:
        """True if the answer is a long text, which no reply can match exactly."""
        return len(words(self.answer or "")) > LONG and not self.aliases

    @property
    def case(self) -> Case:
        """The case of the fact, with the documents needed by its questions."""
        edit = self.edit
        texts = [text for row in (*self.multihop, *self.near_locality) for text in row.documents]
        edits = {each.id: each for each in (edit, *map(_document, texts))}
        return Case(edits=tuple(edits.values()), probes=tuple(self._probes(edit)), tags=self.tags)

    @property
    def names(self) -> tuple[str, ...]:
        """The subject of the row, or its question if it names no subject."""
        return (self.edit.subject or self.question or "",)

    @property
    def demonstrations(self) -> Iterator[Demonstration]:
        """The question and its paraphrases with the fact, and unaffected questions, each with its
        answer; empty for a long answer.
        """
        edit, target = self.edit, self.answer or self.object or ""
        if self.is_long:
            return
        retained = [(row.question, row.answer) for row in self.locality if row.answer]
        rows = (
            ("copy", self.question or edit.cloze, target),
            *(("update", question, target) for question in self.paraphrases),
            *(("retain", question, answer) for question, answer in retained),
        )
        for kind, prompt, answer in rows:
            fields = {"style": style_of(prompt), "target": answer}
            yield Demonstration(kind=kind, fact=edit.text, prompt=prompt, **fields)

    def _probes(self, edit: Edit) -> Iterator[Probe]:
        right = golds(self.answer or self.object or "", self.aliases)
        about: dict[str, Any] = {"edit_ids": (edit.id,), "subject": edit.subject}
        scorers = ("value_match", "likelihood") if self.old_answer else ("value_match",)
        for place, question in enumerate((self.question or edit.cloze, *self.paraphrases)):
            if self.is_long:
                yield _long("long_paraphrase" if place else "long_answer", question, right, about)
            else:
                kind = "paraphrase" if place else "efficacy"
                yield _probe(kind, question, right, rival=self.old_answer, scorers=scorers, **about)
        for row in self.sub_questions:
            yield _answered("sub_question", row, (edit.id,))
        for row in self.multihop:
            yield _multihop(row, (edit.id, *_ids(row)))
        for row in self.reasoning:
            fields: dict[str, Any] = {
                "choices": ("yes", "no"),
                "scorers": ("choice",),
                "tags": row.tags,
            }
            yield _probe(
                "reasoning", row.question, (str(row.answer).lower(),), edit_ids=(edit.id,), **fields
            )
        for row in self.near_locality:
            yield _answered("near_locality", row, _ids(row) or (edit.id,))
        for row in self.locality:
            yield _locality(row)
        for question in self.abstention:
            yield _probe(
                "abstention", question, (NOT_KNOWN,), edit_ids=(edit.id,), scorers=("abstention",)
            )


def _document(text: str) -> Edit:
    return edit_from({"document": text})


def _ids(row: QuestionRow) -> tuple[str, ...]:
    return tuple(_document(text).id for text in row.documents)


def _answered(kind: str, row: QuestionRow, edit_ids: tuple[str, ...], **fields: Any) -> Probe:
    right = golds(row.answer or "", row.aliases)
    scorers = ("value_match",)
    about: dict[str, Any] = {"edit_ids": edit_ids, "tags": row.tags, **fields}
    return _probe(kind, row.question, right, scorers=scorers, **about)


def _multihop(row: QuestionRow, edit_ids: tuple[str, ...]) -> Probe:
    count = {"hops": len(row.hop_golds)} if row.hops else {}
    counted = row.model_copy(update={"tags": row.tags | count})
    return _answered("multihop", counted, edit_ids, hop_golds=row.hop_golds)


def _long(kind: str, question: str, gold: tuple[str, ...], about: dict[str, Any]) -> Probe:
    return _probe(
        kind,
        question,
        gold,
        scorers=("rouge_l", "rouge_recall", "similarity"),
        reading="whole",
        new_tokens=LONG_REPLY,
        **about,
    )


def _locality(row: QuestionRow) -> Probe:
    about: dict[str, Any] = {"in_scope": False, "tags": row.tags}
    if row.answer is None:
        return _probe("locality", row.question, ("",), scorers=("agreement",), **about)
    scorers = ("value_match", "agreement")
    return _probe(
        "locality", row.question, golds(row.answer, row.aliases), scorers=scorers, **about
    )


def _probe(kind: str, question: str, gold: tuple[str, ...], **fields: Any) -> Probe:
    return Probe(kind=kind, prompt=question, style=style_of(question), gold=gold, **fields)


def style_of(question: str) -> Style:
    """Return `question` for a text that ends in a question mark of any script, in quotes or not,
    else `cloze`.

    A semicolon counts as a question mark after Greek words.
    """
    text = question.rstrip(CLOSING)
    is_greek = text.endswith(";") and GREEK.search(text) is not None
    return "question" if text.endswith(QUESTION_MARKS) or is_greek else "cloze"
