"""Edits: a new fact as triplet, document or event, and the base class of all frozen records."""

import hashlib
import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from emend.memory.typography import are_unspaced, full_stop

Form = Literal["triplet", "triplets", "document", "event", "facts"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str, check_circular=False)


def content_id(*parts: object) -> str:
    """Return 16 hex digits of a hash of the content, independent of loading order, time and
    machine.
    """
    return hashlib.sha256(_ENCODER.encode(parts).encode()).hexdigest()[:16]


def prompt_id(*parts: object) -> str:
    """Return 8 hex digits of a hash of the parts of a prompt."""
    return content_id(*parts)[:8]


class FrozenModel(BaseModel):
    """Base class of immutable records: rejects unknown fields, and round-trips exactly through
    `model_dump_json` and `model_validate_json`.
    """

    # JSON has no infinity: a log-probability of minus infinity is written as "-Infinity", not null.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Triplet(FrozenModel):
    """A fact as (subject, relation, object), with Wikidata ids where the data has them."""

    subject: str
    relation: str
    object: str
    subject_id: str | None = None
    relation_id: str | None = None
    object_id: str | None = None

    @property
    def text(self) -> str:
        """Subject, relation and object in one line; in a cloze relation, the subject fills the
        gap.
        """
        if "{}" in self.relation:
            return f"{self.relation.replace('{}', self.subject, 1)} {self.object}"
        return f"{self.subject} {self.relation} {self.object}"


def _all_fields(triplet: Any) -> Any:
    """Return all fields of a triplet, given as a dict or a `Triplet`, as a dict."""
    if isinstance(triplet, dict):
        return dict.fromkeys(Triplet.model_fields) | triplet
    return triplet.model_dump() if isinstance(triplet, Triplet) else triplet


class Edit(FrozenModel):
    """An update to the knowledge of a model.

    `text` is stored in a memory and shown in prompts. `prompt` is a cloze with `{}` for the
    subject; parametric methods train on it together with `target_new`. An empty `id` is filled from
    the content.
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
            # A field with its default value is not hashed, so writing the default out does not
            # change the id.
            content = {k: v for k, v in values.items() if k in fields and v != fields[k].default}
            triplets = content.get("triplets", ())
            # anything else is rejected by validation later
            triplets = triplets if isinstance(triplets, (list, tuple)) else [triplets]
            return values | {
                "id": content_id("edit", content | {"triplets": [_all_fields(t) for t in triplets]})
            }
        return values

    @property
    def cloze(self) -> str:
        """The prompt with the subject filled in."""
        return self.prompt.replace("{}", self.subject, 1)

    @classmethod
    def from_triplet(cls, triplet: Triplet, prompt: str, **fields: Any) -> Self:
        """Return an edit whose text is the prompt with subject and object filled in."""
        cloze = prompt.replace("{}", triplet.subject, 1)
        space = "" if are_unspaced(cloze[-1:], triplet.object[:1]) else " "
        text = f"{cloze}{space}{triplet.object}{full_stop(triplet.object)}"
        return cls(
            form="triplet",
            text=text,
            subject=triplet.subject,
            prompt=prompt,
            target_new=triplet.object,
            triplets=(triplet,),
            **fields,
        )
