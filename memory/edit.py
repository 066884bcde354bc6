"""The words everything else speaks: a new fact as triplet, document or event, and the edit that inserts it."""

import hashlib
import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

Form = Literal["triplet", "triplets", "document", "event", "facts"]


def content_id(*parts: object) -> str:
    """Sixteen hex digits that depend on the content alone, never on order of loading, time or machine."""
    packed = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(packed.encode()).hexdigest()[:16]


class Word(BaseModel):
    """Base of the frozen records: unknown fields are refused, `model_dump_json` and `model_validate_json` are exact."""

    # JSON knows no infinity: the log-probability of the impossible is written "-Infinity", not null.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Triplet(Word):
    """One fact as (subject, relation, object), with Wikidata ids where the data has them."""

    subject: str
    relation: str
    object: str
    subject_id: str | None = None
    relation_id: str | None = None
    object_id: str | None = None

    @property
    def text(self) -> str:
        """The three parts in one line."""
        return f"{self.subject} {self.relation} {self.object}"


def _whole(told: Any) -> Any:
    """All fields of a triplet, however it was given."""
    if isinstance(told, dict):
        return dict.fromkeys(Triplet.model_fields) | told
    return told.model_dump() if isinstance(told, Triplet) else told


class Edit(Word):
    """One update to insert into what a model knows.

    `text` is what a memory stores and a prompt shows; `prompt` is the cloze with `{}` for the subject, which parametric
    methods train on together with `target_new`. An empty `id` is filled from the content.
    """

    id: str = ""
    form: Form
    text: str
    subject: str = ""
    prompt: str = ""
    question: str = ""
    target_new: str = ""
    target_true: str = ""
    triplets: tuple[Triplet, ...] = ()
    language: str = "en"
    time: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            fields = {name: field for name, field in cls.model_fields.items() if name != "id"}
            # What says no more than the default is no part of the content, whether it was written out or not.
            told = {k: v for k, v in values.items() if k in fields and v != fields[k].default}
            given = told.get("triplets", ())
            given = given if isinstance(given, (list, tuple)) else [given]  # which the field itself refuses
            return values | {"id": content_id("edit", told | {"triplets": [_whole(one) for one in given]})}
        return values

    @property
    def cloze(self) -> str:
        """The prompt with the subject filled in."""
        return self.prompt.replace("{}", self.subject, 1)

    @classmethod
    def from_triplet(cls, triplet: Triplet, prompt: str, **more: Any) -> Self:
        """An edit whose text is the prompt with subject and object filled in."""
        text = f"{prompt.replace('{}', triplet.subject, 1)} {triplet.object}."
        return cls(
            form="triplet",
            text=text,
            subject=triplet.subject,
            prompt=prompt,
            target_new=triplet.object,
            triplets=(triplet,),
            **more,
        )
