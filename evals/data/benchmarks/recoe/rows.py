"""ReCoE's rows, in their three schemas.

superlative, comparative and sorting (sorting has no aliases; only the two swapped choices have counterfactuals):

    {"question": "Which of the two lakes Brisko and Halmen is deeper?", "answer": "Brisko",
     "counterfactual_answer": "Halmen", "answer_alias": ["Lake Brisko"], "counterfactual_answer_alias": ["Lake Halmen"],
     "facts_per_choice": {"entity1": "Brisko", "choice_1_facts": [...], ...},
     "counterfactuals_per_choice": {"choice_1_counterfactuals": [{"fact": "Lake Brisko is 40 m deep.",
        "atomic_facts": ["Lake Brisko is 40 m deep."], "atomic_triples": ["(Lake Brisko; is deep; 40 m)"]}], ...,
        "unchanged_facts": ["Both lakes lie in Norrland."]}}

counting has `counterfactual_facts`, a list of facts with `sentence` for `fact`; aggregation and subtraction have
`indirect_counterfactual_fact`, a list of such lists, one per sub-question that is altered (and direct ones, which state
the counts and are not edited).
"""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, Field

from emend.evals.data.benchmarks.rows import BenchmarkRow
from emend.evals.metrics.papers.recoe import number, shared_forms
from emend.memory.edit import Edit, Triplet

PREFIX = "Question:"
"""Six comparative questions begin with it; it is removed."""
_CHOICE = re.compile(r"choice_\d+_(?:counterfactuals|facts)")


def _number_as_text(value: object) -> object:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if plain else value.strip() if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | int) else value or []


def _flat(value: object) -> object:
    """Flatten facts in lists of any depth, or by choice, to one list; other values stay, and fail the validation."""
    if isinstance(value, dict) and not {"fact", "sentence"} & value.keys():
        return [fact for key, facts in value.items() if _CHOICE.fullmatch(key) for fact in _leaves(facts)]
    return list(_leaves(value)) if isinstance(value, list) else value


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


Text = Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class CounterfactualRow(BenchmarkRow):
    """A counterfactual: the sentence, its atomic facts, and their triples as "(subject; relation; object)"."""

    sentence: Text = Field(validation_alias=AliasChoices("sentence", "fact"))
    atomic_facts: Texts = ()
    atomic_triples: Texts = ()


Facts = Annotated[tuple[CounterfactualRow, ...], BeforeValidator(_flat)]
Edited = Annotated[Facts, Field(min_length=1)]


class ReCoERow(BenchmarkRow):
    """The fields of all schemas; answers may be whole numbers."""

    question: Text
    answer: Text
    counterfactual_answer: Text
    answer_alias: Texts = ()
    counterfactual_answer_alias: Texts = ()
    misspelt_alias: Texts = Field(default=(), validation_alias="counterfactual_answer_aias")
    facts: Facts
    """The counterfactuals, which are edited."""
    known: Facts = ()
    """The facts that support the original answer."""
    built_by: str = ""
    """The command that made the row, where it is none of the paper's."""

    @property
    def asked(self) -> str:
        """The question, without the prefix that six have."""
        return self.question.removeprefix(PREFIX).lstrip()

    @property
    def originals(self) -> tuple[str, ...]:
        """The original answer and its aliases."""
        return _answers(self.answer, self.answer_alias)

    @property
    def golds(self) -> tuple[str, ...]:
        """The counterfactual answer and its aliases."""
        return _answers(self.counterfactual_answer, (*self.counterfactual_answer_alias, *self.misspelt_alias))

    @property
    def wrong_aliases(self) -> int:
        """Number of aliases that are dropped because they are a number of another size than their answer."""
        originals = {self.answer, *self.answer_alias}
        golds = {self.counterfactual_answer, *self.counterfactual_answer_alias, *self.misspelt_alias}
        return len(originals) + len(golds) - len(self.originals) - len(self.golds)

    @property
    def shared(self) -> set[str]:
        """Canonical forms that both answers have."""
        return shared_forms(self.originals, self.golds)


class ChoiceRow(ReCoERow):
    """A row of superlative, comparative or sorting; the two swapped choices have counterfactuals."""

    facts: Edited = Field(validation_alias="counterfactuals_per_choice")
    known: Facts = Field(default=(), validation_alias="facts_per_choice")


class CountingRow(ReCoERow):
    """A row of counting; usually one member is altered."""

    facts: Edited = Field(validation_alias="counterfactual_facts")
    known: Facts = Field(default=(), validation_alias="facts")


class ComposedRow(ReCoERow):
    """A row of aggregation or subtraction; the paper edits its indirect facts."""

    facts: Edited = Field(validation_alias="indirect_counterfactual_fact")
    known: Facts = Field(default=(), validation_alias="indirect_fact")


ROWS: dict[str, type[ReCoERow]] = {
    "superlative": ChoiceRow,
    "comparative": ChoiceRow,
    "counting": CountingRow,
    "sorting": ChoiceRow,
    "aggregation": ComposedRow,
    "subtraction": ComposedRow,
}
"""The schemes in the order of the paper's tables, and the schema of each."""


def parse_triple(text: str) -> Triplet | None:
    """Parse a text like "(s; r; o)"; None if it has not three parts.

    >>> parse_triple("(Dune (1965);  is by ; Herbert)").subject
    'Dune (1965)'
    """
    inner = text.strip()
    if inner.startswith("("):
        closed = inner.endswith(")") and inner.count("(") <= inner.count(")")
        inner = inner[1:-1] if closed else inner[1:]
    parts = [" ".join(part.split()) for part in inner.split(";")]
    if len(parts) != 3 or not all(parts):
        return None
    return Triplet(subject=parts[0], relation=parts[1], object=parts[2])


def triples_of(row: ReCoERow) -> list[Triplet]:
    """The complete triples of the row's counterfactuals."""
    parsed = (parse_triple(text) for fact in row.facts for text in fact.atomic_triples)
    return [triple for triple in parsed if triple is not None]


def edits_of(row: ReCoERow, setting: str) -> tuple[Edit, ...]:
    """The row's counterfactuals as distinct edits: `atomic` facts, whole `sentence`s, or `triple`s."""
    if setting == "triple":
        edits = [Edit.from_triplet(triple, f"{{}} {triple.relation}") for triple in triples_of(row)]
    elif setting == "sentence":
        edits = [Edit(form="document", text=_as_sentence(fact.sentence)) for fact in row.facts]
    else:
        edits = [Edit(form="facts", text=text) for text in atoms_of(row.facts)]
    return tuple({edit.id: edit for edit in edits}.values())


def atoms_of(facts: tuple[CounterfactualRow, ...]) -> tuple[str, ...]:
    """The distinct atomic facts as sentences; the whole sentence of a fact without atomic ones."""
    texts = (text for fact in facts for text in fact.atomic_facts or (fact.sentence,))
    return tuple(dict.fromkeys(map(_as_sentence, texts)))


def _answers(answer: str, aliases: tuple[str, ...]) -> tuple[str, ...]:
    # -3 has the alias "3" in the data, which stays; one record gives "thirty" for 24.
    size = number(answer)
    right = (alias for alias in aliases if size is None or abs(number(alias) or 0) == abs(size))
    return tuple(dict.fromkeys((answer, *right)))


def _as_sentence(text: str) -> str:
    # Prompts join facts; many have no full stop, and would run into the next.
    return text if text.endswith((".", "!", "?")) else f"{text}."
