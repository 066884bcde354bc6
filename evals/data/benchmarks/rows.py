"""Row models that several benchmarks share: pydantic models of the records in a benchmark's files."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(min_length=1)]
Tags = dict[str, str | int | float | bool]
"""Tags of a case or a probe."""
ASKED_BY_OTHER = "asked_by_other_edit"
"""Tag of a probe out of scope that another case's edit asks verbatim: with both applied, it is not out of scope."""


def check_slot(prompt: str) -> str:
    """Return the prompt, if it has exactly one `{}` for the subject; other braces are text.

    Raises:
        ValueError: it has none or several.
    """
    if prompt.count("{}") != 1:
        raise ValueError("exactly one {} expected")
    return prompt


ClozePrompt = Annotated[Text, AfterValidator(check_slot)]


def aliases_field(name: str) -> AliasChoices:
    """Both spellings of a field of aliases: `answer_alias`, `answer_aliases`."""
    return AliasChoices(name, f"{name}es")


class BenchmarkRow(BaseModel):
    """Base of the row models; fields that Emend does not use are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NumberedRow(BenchmarkRow):
    """A row with the number that joins it to the rows of other files."""

    id: int


class WikidataEntity(BenchmarkRow):
    """A Wikidata entity: its label, which the files call `str`, and its id."""

    label: Text = Field(validation_alias="str")
    id: str | None = None


class HopRow(BenchmarkRow):
    """One hop of a multi-hop question."""

    question: str
    answer: Text
    answer_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_alias"))


class ChainTriples(BenchmarkRow):
    """Wikidata ids (subject, relation, object) of the hops after the record's edits, and of these edits."""

    new_triples: tuple[tuple[str, str, str], ...]
    edit_triples: tuple[tuple[str, str, str], ...]
    new_triples_labeled: tuple[tuple[str, str, str], ...] = ()


def contaminated_ids(chains: Mapping[int, ChainTriples]) -> frozenset[int]:
    """Ids of the rows with a hop, edited or not, to which another row's edit gives another object."""
    objects: dict[tuple[str, str], set[str]] = {}
    for orig in chains.values():
        for subject, relation, target in orig.edit_triples:
            objects.setdefault((subject, relation), set()).add(target)
    return frozenset(
        number
        for number, orig in chains.items()
        if any(objects.get((subject, relation), set()) - {target} for subject, relation, target in orig.new_triples)
    )


def golds(answer: str, aliases: Iterable[str]) -> tuple[str, ...]:
    """The answer, then each alias once; blank aliases are dropped."""
    return tuple(dict.fromkeys([answer, *(alias for alias in aliases if alias.strip())]))
