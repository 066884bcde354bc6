"""The extracting role: triplets from a document by a chat model, and sorting of extraction errors.

Three forms of reply: `lines`, one `subject; relation; object` a line with one demonstration, as in
AKEW (appendix E.3); `tuples`, all in one line as `(subject, relation, object)` with `<|>` between,
as in the public LangChain prompt that DocTER names (section 5); `json`, a schema. The wording is
our own.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from pydantic import BaseModel, ConfigDict, Field, field_validator

from emend.agents.parsing.delimiters import strip_delimiters
from emend.agents.parsing.messages import read_usage
from emend.agents.parsing.reply_marks import strip_marks
from emend.agents.roles import PROMPTS
from emend.agents.scoring import LimitedModel
from emend.agents.structured import ask_structured
from emend.memory.edit import Triplet, prompt_id
from emend.memory.errors import BadSettings, ModelReplyError
from emend.memory.probe import Usage
from emend.memory.registry import nearest

DELIMITER = "<|>"
NONE = "NONE"
BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
EMPHASIS = re.compile(r"(\*\*|__|\*|_|`)([^*_`]+)\1")
HEADER = ["subject", "relation", "object"]
# An abbreviation that ends with a full stop.
ABBREVIATED = re.compile(r"\b(?:[A-Za-z]|Inc|Ltd|Co|Corp|Jr|Sr|St|Mt|Bros|etc)\.$")
# Minimum token limit of a local model for `lines` or `tuples`; its default limit is meant for short
# answers.
NEW_TOKENS = 512
EXAMPLE = PROMPTS["extract"]["example"]
SOLVED = (
    ("Pell Lock", "is located in", "Chile"),
    ("Pell Lock", "was opened in", "1874"),
    ("Pell Lock", "was opened by", "Ana Rojo"),
)
TASK = PROMPTS["extract"]["task"]
EXAMPLES = {
    "lines": "\n".join("; ".join(parts) for parts in SOLVED),
    "tuples": DELIMITER.join(f"({', '.join(parts)})" for parts in SOLVED),
    "json": json.dumps(
        {"triplets": [dict(zip(("subject", "relation", "object"), p, strict=True)) for p in SOLVED]}
    ),
}
# Rule and solved example of each form of reply.
FORMS = {form: (PROMPTS["extract"][form], example) for form, example in EXAMPLES.items()}
AGAIN = PROMPTS["extract"]["again"]


class ExtractedTriplet(BaseModel):
    """A fact that the document states."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    subject: str = Field(min_length=1, description="the full name of what the fact is about")
    relation: str = Field(min_length=1, description="how it is related, in a few words")
    object: str = Field(min_length=1, description="the name, date or number that it is related to")


class ExtractedTriplets(BaseModel):
    """All facts that the document states."""

    triplets: list[ExtractedTriplet]

    @field_validator("triplets", mode="before")
    @classmethod
    def _drop_incomplete(cls, rows: Any) -> Any:
        """Drop rows with null or empty fields, which small models write for missing information,
        and keep the others.
        """
        if not isinstance(rows, list):
            return rows
        fields = ExtractedTriplet.model_fields

        def is_complete(row: Any) -> bool:
            return not isinstance(row, dict) or all(
                row.get(name, 0) not in (None, "") for name in fields
            )

        return list(filter(is_complete, rows)) or rows


@dataclass(frozen=True)
class ModelTriplets:
    """The triplets in a model's reply, with the raw reply and its cost."""

    triplets: tuple[Triplet, ...]
    reply: str
    usage: Usage


def check_form(form: str) -> str:
    """Return the form if it is known.

    Raises:
        BadSettings: unknown form.
    """
    if form not in FORMS:
        raise BadSettings(f"unknown form '{form}': {nearest(form, list(FORMS))}")
    return form


def extraction_prompt(document: str, form: str = "json", failure: str = "") -> str:
    """Return the exact prompt, which mentions the problem after a failure."""
    rule, example = FORMS[check_form(form)]
    parts = [f"{TASK} {rule}", f"<document>\n{EXAMPLE}\n</document>\n{example}"]
    if failure:
        parts.append(AGAIN.format(failure=failure))
    clean = strip_delimiters(document, "document").strip()
    return "\n\n".join([*parts, f"<document>\n{clean}\n</document>"])


def extraction_prompt_id(form: str) -> str:
    """Return a hash of the form's prompt as 8 hex digits."""
    return prompt_id(extraction_prompt("", form), AGAIN, ExtractedTriplets.model_json_schema())


def read_triplets(
    model: BaseChatModel, document: str, form: str = "json", failure: str = ""
) -> ModelTriplets:
    """Extract the triplets of a document in one call.

    Raises:
        BadSettings: unknown form.
        ModelReplyError: the reply is not in that form; carries the reply and its cost.
    """
    prompt = extraction_prompt(document, form, failure)
    if form == "json":
        structured = ask_structured(model, prompt, ExtractedTriplets, retries=0)
        parts = [(fact.subject, fact.relation, fact.object) for fact in structured.value.triplets]
        return ModelTriplets(_triplets(parts), structured.reply, structured.usage)
    message = _invoke(model, prompt)
    reply, usage = str(message.text), read_usage(message)
    try:
        return ModelTriplets(parse_triplets(reply, form), reply, usage)
    except ModelReplyError as error:
        error.usage = usage
        raise


def _invoke(model: BaseChatModel, prompt: str) -> AIMessage:
    """Return the reply to a prompt; the token limit of a local model is raised."""
    if isinstance(model, LimitedModel):
        return model.invoke(prompt, stop=[], max_new_tokens=max(NEW_TOKENS, model.max_new_tokens))
    return model.invoke(prompt)


def parse_triplets(reply: str, form: str) -> tuple[Triplet, ...]:
    """Parse a reply in `lines` or `tuples`; code fences and text around the list are skipped.

    Raises:
        ModelReplyError: there is no list in that form; carries the reply.
    """
    text = strip_marks(reply)
    if not text.strip():
        raise ModelReplyError(f"expected triplets as {form}, the reply is empty.", reply)
    return _triplets(_from_lines(text) if form == "lines" else _from_tuples(text))


def _triplets(parts: list[tuple[str, str, str]]) -> tuple[Triplet, ...]:
    return tuple(
        dict.fromkeys(
            Triplet(subject=s.strip(), relation=r.strip(), object=o.strip()) for s, r, o in parts
        )
    )


def _from_lines(reply: str) -> list[tuple[str, str, str]]:
    rows = []
    for line in reply.splitlines():
        parts = [_plain(part) for part in re.split(r"[;；]", _plain(BULLET.sub("", line)))]
        if len(parts) == 3 and all(parts) and [part.casefold() for part in parts] != HEADER:
            if ABBREVIATED.search(parts[2]):
                last = parts[2]
            else:
                last = parts[2].removesuffix(".").removesuffix("。")
            rows.append((parts[0], parts[1], _plain(last)))
    return rows or _none(reply, "lines 'subject; relation; object'")


def _plain(part: str) -> str:
    """Return the part without surrounding white space and emphasis marks."""
    marked = EMPHASIS.fullmatch(part.strip())
    return (marked[2] if marked else part).strip()


def _from_tuples(reply: str) -> list[tuple[str, str, str]]:
    rows = []
    for inside in re.findall(
        r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)", reply.translate(str.maketrans("（）", "()"))
    ):
        parts = [part.strip(" \"'") for part in re.split("[,，]", inside, maxsplit=2)]
        if len(parts) == 3 and all(parts):
            rows.append((parts[0], parts[1], parts[2]))
    return rows or _none(reply, "tuples '(subject, relation, object)'")


def _none(reply: str, expected: str) -> list[tuple[str, str, str]]:
    if reply.strip().strip("`.").strip().upper() == NONE:
        return []
    raise ModelReplyError(
        f"expected {expected}, the reply has none and does not say {NONE}.", reply
    )


ErrorType = Literal["AT", "IS", "IR"]


class SortedError(BaseModel):
    """The type of an extraction error, after its reason."""

    model_config = ConfigDict(  # what the model sees
        json_schema_extra={
            "description": "What is wrong with an extracted triplet; the reason comes first."
        }
    )
    reason: str
    error: ErrorType


SORT = PROMPTS["extract"]["sort"]


def sort_error(model: BaseChatModel, gold: str, triplet: Triplet) -> ErrorType:
    """Let a model classify an extraction error: ambiguous triplet, incorrect subject, incorrect
    relation.

    The types are DocTER's (section 6.5.1), where people classified the errors.

    Raises:
        ModelReplyError: the reply names no type; carries the reply.
    """
    parts = f"{triplet.subject} | {triplet.relation} | {triplet.object}"
    clean = [strip_delimiters(text, "fact", "triplet") for text in (gold, parts)]
    return ask_structured(
        model, SORT.format(gold=clean[0], triplet=clean[1]), SortedError
    ).value.error
