"""ReCoE's rows, in their three schemas, and the pure functions that turn one into a case.

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

from emend.evals.benchmarks.files import Row
from emend.evals.metrics.recoe import number, shared_forms
from emend.memory.edit import Edit, Triplet

PREFIX = "Question:"
"""Six comparative questions begin with it; it is taken off."""
_CHOICE = re.compile(r"choice_\d+_(?:counterfactuals|facts)")


def _number_as_text(value: object) -> object:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if plain else value.strip() if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | int) else value or []


def _flat(value: object) -> object:
    """Facts in lists of any depth, or by choice, as one list; what is neither stays, and is refused."""
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


class FactRow(Row):
    """A counterfactual: the sentence, its atomic facts, and their triples as "(subject; relation; object)"."""

    sentence: Text = Field(validation_alias=AliasChoices("sentence", "fact"))
    atomic_facts: Texts = ()
    atomic_triples: Texts = ()


Facts = Annotated[tuple[FactRow, ...], BeforeValidator(_flat)]
Edited = Annotated[Facts, Field(min_length=1)]


class ReCoERow(Row):
    """What all schemas have; answers may be whole numbers."""

    question: Text
    answer: Text
    counterfactual_answer: Text
    answer_alias: Texts = ()
    counterfactual_answer_alias: Texts = ()
    misspelt_alias: Texts = Field(default=(), validation_alias="counterfactual_answer_aias")

    @property
    def facts(self) -> tuple[FactRow, ...]:
        """The counterfactuals that are edited in."""
        raise NotImplementedError

    @property
    def known(self) -> tuple[FactRow, ...]:
        """The facts that support the original answer."""
        raise NotImplementedError

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
        """How many aliases are a number of another size than their answer, and are therefore left out."""
        told = (
            {self.answer, *self.answer_alias},
            {
                self.counterfactual_answer,
                *self.counterfactual_answer_alias,
                *self.misspelt_alias,
            },
        )
        return sum(map(len, told)) - len(self.originals) - len(self.golds)

    @property
    def shared(self) -> set[str]:
        """Forms that stand for both answers."""
        return shared_forms(self.originals, self.golds)


class ChoiceRow(ReCoERow):
    """A row of superlative, comparative or sorting."""

    counterfactuals_per_choice: Edited
    facts_per_choice: Facts = ()

    @property
    def facts(self) -> tuple[FactRow, ...]:
        """Those of the two swapped choices."""
        return self.counterfactuals_per_choice

    @property
    def known(self) -> tuple[FactRow, ...]:
        """Those of all choices."""
        return self.facts_per_choice


class CountingRow(ReCoERow):
    """A row of counting."""

    counterfactual_facts: Edited
    altered: Facts = Field(default=(), validation_alias="facts")

    @property
    def facts(self) -> tuple[FactRow, ...]:
        """Usually one: the member that is altered."""
        return self.counterfactual_facts

    @property
    def known(self) -> tuple[FactRow, ...]:
        """What is true of the altered members."""
        return self.altered


class ComposedRow(ReCoERow):
    """A row of aggregation or subtraction."""

    indirect_counterfactual_fact: Edited
    indirect_fact: Facts = ()

    @property
    def facts(self) -> tuple[FactRow, ...]:
        """The indirect ones, which the paper edits."""
        return self.indirect_counterfactual_fact

    @property
    def known(self) -> tuple[FactRow, ...]:
        """The indirect ones too."""
        return self.indirect_fact


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
    """The triple that a text like "(s; r; o)" is, or None where it has not three parts.

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
    """All triples of the row's counterfactuals that have three parts."""
    parsed = (parse_triple(text) for fact in row.facts for text in fact.atomic_triples)
    return [triple for triple in parsed if triple is not None]


def edits_of(row: ReCoERow, setting: str) -> tuple[Edit, ...]:
    """The row's counterfactuals as edits, each once: `atomic` facts, whole `sentence`s, or `triple`s."""
    if setting == "triple":
        edits = [Edit.from_triplet(triple, f"{{}} {triple.relation}") for triple in triples_of(row)]
    elif setting == "sentence":
        edits = [Edit(form="document", text=_stopped(fact.sentence)) for fact in row.facts]
    else:
        edits = [Edit(form="facts", text=text) for text in atoms_of(row.facts)]
    return tuple({edit.id: edit for edit in edits}.values())


def atoms_of(facts: tuple[FactRow, ...]) -> tuple[str, ...]:
    """The atomic facts as sentences, each once; the whole sentence of a fact that has none."""
    texts = (text for fact in facts for text in fact.atomic_facts or (fact.sentence,))
    return tuple(dict.fromkeys(map(_stopped, texts)))


def _answers(answer: str, aliases: tuple[str, ...]) -> tuple[str, ...]:
    # -3 has the alias "3" in the data, which stays; 24 has "thirty" in one record.
    size = number(answer)
    right = (alias for alias in aliases if size is None or abs(number(alias) or 0) == abs(size))
    return tuple(dict.fromkeys((answer, *right)))


def _stopped(text: str) -> str:
    # Facts are put one after another in a prompt; many have no full stop, and would run into the next.
    return text if text.endswith((".", "!", "?")) else f"{text}."
