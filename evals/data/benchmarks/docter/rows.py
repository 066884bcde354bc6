"""Rows of DocTER's files.

Two rows, shortened, of edit_success_eval.json and en_doc.json, joined by id:

    {"id": 0, "query": "The mother tongue of Danielle Darrieux is", "original_target": "French",
     "altered_target": "English", "paraphrase_query": ["Shayna does this ... Danielle Darrieux,
       a native", ...]}
    {"id": 0, "src": "As a renowned actress of both French and international cinema, ..."}
"""

import re
from typing import Literal

from pydantic import Field

from emend.evals.data.benchmarks.rows import ClozePrompt, NumberedRow, Text
from emend.memory.edit import Edit, Triplet

_SENTENCE_END = re.compile(
    r"(?<=[.!])(?<!\b[A-Z]\.)(?<!\b(?:St|Dr|Mr|Ms|Sr|Jr|Mt|Ft|vs|No)\.)(?<!\bMrs\.)\s+|\n+"
)


class DocumentRow(NumberedRow):
    """A row of en_doc.json, crosslingual_en_doc.json (there `id` is a string) or
    crosslingual_zh_doc.json.
    """

    src: Text

    def edit(self, language: str = "en") -> Edit:
        """Return the edit of setting `doc`: the document only, without subject, prompt or
        target.
        """
        return Edit(form="document", text=self.src, language=language)


class GoldFactRow(NumberedRow):
    """A row of gold_facts.json: the CounterFact record behind a document."""

    subject: Text
    prompt_template: ClozePrompt
    original_target: Text
    altered_target: Text

    def edit(self, language: str = "en") -> Edit:
        """Return the edit of setting `gold`; the cloze with `{}` stands for the relation, which
        DocTER does not name.
        """
        triplet = Triplet(
            subject=self.subject, relation=self.prompt_template, object=self.altered_target
        )
        return Edit.from_triplet(triplet, self.prompt_template, target_true=self.original_target)


class QueriesRow(NumberedRow):
    """A row of locality_eval.json or cross_*_eval.json."""

    query: tuple[Text, ...] = Field(min_length=1)
    original_target: Text
    altered_target: Text


class EditRow(NumberedRow):
    """A row of edit_success_eval.json."""

    query: Text
    paraphrase_query: tuple[Text, ...]
    original_target: Text
    altered_target: Text


class ReasoningRow(NumberedRow):
    """A row of reasoning_eval.json: a yes/no question that needs the new fact and one more."""

    src: Text
    label: Literal["True", "False"]

    @property
    def document(self) -> int:
        """Id of the document that the question is about: its own id if the label is True, the next
        if it is False.

        In the published file, no False question names the subject of its own id, and nearly all
        name that of the next id. The released code never uses these ids.
        """
        return self.id + (self.label == "False")


def last_sentence(text: str) -> str:
    """Return the last sentence of a paraphrase, since DocTER puts the statement after an unrelated
    text.

    A question is not split from the words that begin its answer ("What is the twin city of Oslo? It
    is"), and a full stop after an initial or a short title does not end a sentence.
    """
    parts = [part for part in _SENTENCE_END.split(text) if part.strip()]
    if parts:
        return parts[-1].strip()
    return text.strip()
