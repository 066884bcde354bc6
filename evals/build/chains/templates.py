"""Templates of relations, and the questions that they make of a chain."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from emend.evals.data.wikidata.relations import Relations, Template
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import read_input

EXAMPLE = """["country of citizenship"]
cloze = "{} is a citizen of"
question = "What is the country of citizenship of {}?"
phrase = "the country of citizenship of {}\""""


class RelationTemplates(FrozenModel):
    """Templates of a relation, in which `{}` stands for the subject."""

    cloze: Template
    """Text that the object continues."""
    question: Template
    phrase: Template
    """Noun phrase for the object, which takes its place in the question about the next hop."""


class GivenTemplates(FrozenModel):
    """Templates of a relation that somebody gives; those that are left out are made of the relation's name."""

    cloze: Template | None = None
    question: Template | None = None
    phrase: Template | None = None


class TemplateBook:
    """Templates by relation: first the user's, then those of the table of facts, then those of Wikidata's relations.

    Args:
        from_user: by relation, the user's.
        from_table: by relation, those of the table.
    """

    def __init__(
        self,
        from_user: Mapping[str, GivenTemplates] | None = None,
        from_table: Mapping[str, GivenTemplates] | None = None,
    ) -> None:
        wikidata = {
            name: GivenTemplates(cloze=each.cloze, question=each.question, phrase=f"the {each.name} of {{}}")
            for each in Relations.read().relations
            for name in (each.id, each.name)
        }
        self._books = (from_user or {}, from_table or {}, wikidata)

    def templates(self, relation: str) -> RelationTemplates:
        """The templates of a relation; where nobody gives any, those made of its name.

        Raises:
            BadData: the name is a cloze of which no noun phrase can be made, and nobody gives one.
        """
        templates = default_templates(relation)
        for book in reversed(self._books):
            if relation in book:
                templates |= book[relation].model_dump(exclude_none=True)
        if not templates["phrase"]:
            raise BadData(
                f"the relation '{relation}' is no noun: give its templates with --relations, such as\n{EXAMPLE}"
            )
        templates["question"] = templates["question"] or f"What is {templates['phrase']}?"
        return RelationTemplates.model_validate(templates)

    def question(self, start: str, relations: Sequence[str]) -> str:
        """The question along relations, such as `What is the climate of the capital of Peru?`."""
        subject = start
        for relation in relations[:-1]:
            subject = fill(self.templates(relation).phrase, subject)
        question = fill(self.templates(relations[-1]).question, subject)
        return question[:1].upper() + question[1:]


def default_templates(relation: str) -> dict[str, str]:
    """Templates made of a relation's name, or of a cloze in its place; the phrase is empty where a cloze has none."""
    if "{}" not in relation:
        phrase, cloze = f"the {relation} of {{}}", f"The {relation} of {{}} is"
    else:
        hit = re.fullmatch(r"[Tt](he .*\{\}) is", relation)
        phrase, cloze = f"t{hit[1]}" if hit else "", relation
    return {"cloze": cloze, "question": f"What is {phrase}?" if phrase else "", "phrase": phrase}


def fill(template: str, subject: str) -> str:
    """The template with the subject in it."""
    return template.replace("{}", subject, 1)


_TABLES = TypeAdapter(dict[Annotated[str, Field(min_length=1)], GivenTemplates])


def read_templates(path: Path) -> dict[str, GivenTemplates]:
    """Read a TOML file of templates, a table for each relation.

    Raises:
        BadData: the file cannot be read, is no TOML, or has a wrong template; names relation and field.
    """
    try:
        tables = tomllib.loads(read_input(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read the templates '{path}': {error}. A relation is\n{EXAMPLE}") from error
    try:
        return _TABLES.validate_python(tables)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ", ".join(f"'{part}'" for part in first["loc"])
        raise BadData(f"{path}, {place}: {first['msg']}. A relation is\n{EXAMPLE}") from error
