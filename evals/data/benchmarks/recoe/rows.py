"""Rows of ReCoE's files, by scheme.

A shortened record (the other schemas follow):

    {"question": "How many lighthouses stand on the isle of Torvay?", "answer": "5",
      "counterfactual_answer": "4",
     "answer_alias": ["five"], "counterfactual_answer_alias": ["four"], "domain": "geography",
     "counterfactual_facts": [{"original_output": "...",
       "sentence": "Kelp Light stands on the isle of Marn.",
        "atomic_facts": ["Kelp Light stands on the isle of Marn"],
        "atomic_triples": ["(Kelp Light; stands on; the isle of Marn)"]}], "facts": [...],
          "extended_facts": [...]}

Superlative, comparative and sorting (sorting has no aliases; only the two swapped choices have
counterfactuals):

    {"question": "Which of the two lakes Brisko and Halmen is deeper?", "answer": "Brisko",
     "counterfactual_answer": "Halmen", "answer_alias": ["Lake Brisko"],
       "counterfactual_answer_alias": ["Lake Halmen"],
     "facts_per_choice": {"entity1": "Brisko", "choice_1_facts": [...], ...},
     "counterfactuals_per_choice": {"choice_1_counterfactuals": [{"fact": "Lake Brisko is 40 m
       deep.",
        "atomic_facts": ["Lake Brisko is 40 m deep."],
          "atomic_triples": ["(Lake Brisko; is deep; 40 m)"]}], ...,
        "unchanged_facts": ["Both lakes lie in Norrland."]}}

Counting has `counterfactual_facts`, a list of facts with `sentence` for `fact`; aggregation and
subtraction have `indirect_counterfactual_fact`, a list of such lists, one per altered sub-question
(and direct ones, which state the counts and are not edited).
"""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, Field

from emend.evals.data.benchmarks.rows import BenchmarkRow
from emend.evals.metrics.published.recoe import number, shared_forms

# Prefix of six comparative questions, which is removed.
PREFIX = "Question:"
_CHOICE = re.compile(r"choice_\d+_(?:counterfactuals|facts)")


def _number_as_text(value: object) -> object:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _listed(value: object) -> object:
    if isinstance(value, str | int):
        return [value]
    return value or []


def _flat(value: object) -> object:
    """Flatten facts in nested lists, or by choice, to one list; other values are kept and fail the
    validation.
    """
    if isinstance(value, dict) and not {"fact", "sentence"} & value.keys():
        return [
            fact
            for key, facts in value.items()
            if _CHOICE.fullmatch(key)
            for fact in _leaves(facts)
        ]
    if isinstance(value, list):
        return list(_leaves(value))
    return value


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


Text = Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class CounterfactualRow(BenchmarkRow):
    """A counterfactual: the sentence, its atomic facts, and their triples in the form "(subject;
    relation; object)".
    """

    sentence: Text = Field(validation_alias=AliasChoices("sentence", "fact"))
    atomic_facts: Texts = ()
    atomic_triples: Texts = ()


Facts = Annotated[tuple[CounterfactualRow, ...], BeforeValidator(_flat)]
Edited = Annotated[Facts, Field(min_length=1)]


class ReCoERow(BenchmarkRow):
    """Fields of all schemas; answers may be whole numbers."""

    question: Text
    answer: Text
    counterfactual_answer: Text
    answer_alias: Texts = ()
    counterfactual_answer_alias: Texts = ()
    misspelt_alias: Texts = Field(default=(), validation_alias="counterfactual_answer_aias")
    facts: Facts
    """Counterfactuals, which become the edits."""
    known: Facts = ()
    """Facts that support the original answer."""
    built_by: str = ""
    """Command that made the row; empty for rows of the paper."""

    @property
    def asked(self) -> str:
        """The question, without the prefix of six questions."""
        return self.question.removeprefix(PREFIX).lstrip()

    @property
    def originals(self) -> tuple[str, ...]:
        """The original answer and its aliases."""
        return _answers(self.answer, self.answer_alias)

    @property
    def golds(self) -> tuple[str, ...]:
        """The counterfactual answer and its aliases."""
        return _answers(
            self.counterfactual_answer, (*self.counterfactual_answer_alias, *self.misspelt_alias)
        )

    @property
    def wrong_aliases(self) -> int:
        """Number of aliases that are dropped because they are not the number of their answer,
        ignoring the sign.
        """
        originals = {self.answer, *self.answer_alias}
        golds = {
            self.counterfactual_answer,
            *self.counterfactual_answer_alias,
            *self.misspelt_alias,
        }
        return len(originals) + len(golds) - len(self.originals) - len(self.golds)

    @property
    def shared(self) -> set[str]:
        """Canonical forms that both answers share."""
        return shared_forms(self.originals, self.golds)


class ChoiceRow(ReCoERow):
    """A row of superlative, comparative or sorting; only the two swapped choices have
    counterfactuals.
    """

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


# Row model of each scheme, in the order of the paper's tables.
ROWS: dict[str, type[ReCoERow]] = {
    "superlative": ChoiceRow,
    "comparative": ChoiceRow,
    "counting": CountingRow,
    "sorting": ChoiceRow,
    "aggregation": ComposedRow,
    "subtraction": ComposedRow,
}


def _answers(answer: str, aliases: tuple[str, ...]) -> tuple[str, ...]:
    # The data has the alias "3" for -3, which is kept; one record has "thirty" for 24, which is
    # dropped.
    size = number(answer)
    right = (alias for alias in aliases if size is None or abs(number(alias) or 0) == abs(size))
    return tuple(dict.fromkeys((answer, *right)))
