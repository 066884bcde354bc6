"""Templates for relations, given by the user, by a table of facts, or for Wikidata's properties."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from emend.evals.data.facts.relation_tables import Relations, Template, read_tables
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.relations.cloze import cloze_of

EXAMPLE = """["country of citizenship"]
cloze = "{} is a citizen of"
question = "What is the country of citizenship of {}?"
phrase = "the country of citizenship of {}\""""


class GivenTemplates(FrozenModel):
    """Templates of a relation, in which `{}` stands for the subject; empty ones are made from the
    relation's name.
    """

    cloze: Template = ""
    """Beginning of a sentence that ends with the object."""
    question: Template = ""
    phrase: Template = ""
    """Noun phrase that stands for the object in the question about the next hop."""


class TemplateBook:
    """Templates by relation: the user's come first, then those of the table of facts, then those of
    Wikidata.

    Args:
        from_user: the user's templates, by relation.
        from_table: templates of the table of facts, by relation.
    """

    def __init__(
        self,
        from_user: Mapping[str, GivenTemplates] | None = None,
        from_table: Mapping[str, GivenTemplates] | None = None,
    ) -> None:
        wikidata = {
            name: GivenTemplates(
                cloze=each.cloze, question=each.question, phrase=f"the {each.name} of {{}}"
            )
            for each in Relations.read().relations
            for name in (each.id, each.name)
        }
        self._books = (from_user or {}, from_table or {}, wikidata)

    def templates(self, relation: str) -> GivenTemplates:
        """Return the templates of a relation; those not given are made from its name.

        Raises:
            BadData: the name is a cloze that cannot be converted to a noun phrase, and none is
                given.
        """
        templates = default_templates(relation)
        for book in reversed(self._books):
            if relation in book:
                templates |= book[relation].model_dump(exclude_defaults=True)
        if not templates["phrase"]:
            raise BadData(
                f"the relation '{relation}' is not a noun: give its templates with --relations, "
                f"such as\n{EXAMPLE}"
            )
        templates["question"] = templates["question"] or f"What is {templates['phrase']}?"
        return GivenTemplates.model_validate(templates)

    def question(self, start: str, relations: Sequence[str]) -> str:
        """Return the question along relations, such as `What is the climate of the capital of
        Peru?`.
        """
        subject = start
        for relation in relations[:-1]:
            subject = fill(self.templates(relation).phrase, subject)
        question = fill(self.templates(relations[-1]).question, subject)
        return question[:1].upper() + question[1:]


def default_templates(relation: str) -> dict[str, str]:
    """Return templates made from a relation's name, or from a cloze in its place; a cloze without a
    noun phrase gets an empty one.
    """
    cloze = cloze_of(relation)
    noun = re.fullmatch(r"[Tt](he .*\{\}) (is|are)", cloze)
    if noun:
        phrase = f"t{noun[1]}"
        return {"cloze": cloze, "question": f"What {noun[2]} {phrase}?", "phrase": phrase}
    if "{}" in relation or not cloze.startswith("{} "):
        return {"cloze": cloze, "question": "", "phrase": ""}
    return {"cloze": cloze, "question": f"What is it that {cloze}?", "phrase": f"what {cloze}"}


def fill(template: str, subject: str) -> str:
    """Return the template with the subject filled in."""
    return template.replace("{}", subject, 1)


_TABLES = dict[Annotated[str, Field(min_length=1)], GivenTemplates]


def read_templates(path: Path) -> dict[str, GivenTemplates]:
    """Read a TOML file of templates, with a table for each relation.

    Raises:
        BadData: the file cannot be read, is not TOML, or has an invalid template; the error names
            relation and field.
    """
    tables: dict[str, GivenTemplates] = read_tables(
        path, _TABLES, "the templates", f"A relation is\n{EXAMPLE}"
    )
    return tables
