"""ReCoE's fact recall: which edited facts a chain of thought recalls."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from emend.agents.judging.base import (
    PROMPTS,
    Item,
    JudgeInput,
    Role,
    Verdict,
    VerdictSchema,
    folded,
)
from emend.agents.judging.fence import fenced
from emend.agents.judging.replies import last_line, own_words
from emend.agents.judging.verdicts import NO_THOUGHTS, read_thoughts
from emend.memory.edit import prompt_id
from emend.memory.typography import fold_text

# Maximum number of atomic facts of one chain; a model that repeats itself would produce hundreds.
MAX_FACTS = 40
LABELS = ("consistent", "inconsistent", "unrelated")
NO_EDITS = "the case has no edits to compare with"
Label = Annotated[
    Literal["consistent", "inconsistent", "unrelated"],
    BeforeValidator(folded),
]


class Atoms(VerdictSchema):
    """The atomic facts of a text."""

    facts: list[str] = Field(description="one short sentence per statement; empty if there is none")


class Labelled(VerdictSchema):
    """One fact against the reference."""

    number: int = Field(strict=True, ge=1)
    reason: str = Field(description="what the reference says about it")
    label: Label


class Labels(VerdictSchema):
    """All facts against the reference."""

    facts: list[Labelled]


class Recall(Role):
    """Relatedness and consistency of each atomic fact ("Propagation and Pitfalls", 2024, section
    5.3, Figure 13).
    """

    name: ClassVar[str] = "recall"
    task: ClassVar[str] = PROMPTS["recall"]["task"]
    split: ClassVar[str] = PROMPTS["recall"]["split"]
    schema = Labels
    output: ClassVar[str] = "recall_consistent"
    outputs: ClassVar[tuple[str, ...]] = (
        "recall_consistent",
        "recall_related",
        "recall_inconsistent",
        "recall_of_related",
    )
    scale = "share"
    missing = "no fact of the chain is related to the edits"
    stated = {"label": LABELS}

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick chains of thought, with the texts of the edits as the reference."""
        thoughts = read_thoughts(record)
        if thoughts is None:
            return None
        if not thoughts or not record.edits:
            return NO_EDITS if thoughts else NO_THOUGHTS
        return Item.of(self.name, thoughts=thoughts, reference=tuple(dict.fromkeys(record.edits)))

    def split_prompt(self, item: Item) -> str:
        """Return the first prompt: split the thoughts into facts."""
        return f"{PROMPTS['recall']['split']}\n\n{fenced({'text': item.parts['thoughts']})}"

    def label_prompt(self, item: Item, facts: Sequence[str]) -> str:
        """Return the second prompt: label the facts."""
        numbered = [f"{number}. {fact}" for number, fact in enumerate(facts, 1)]
        parts = {
            "reference": ("\n".join(item.parts["reference"]),),
            "facts": ("\n".join(numbered),),
        }
        return f"{self.task}\n\n{fenced(parts)}"

    def read_atoms(self, reply: Atoms) -> list[str] | str:
        """Return the facts without duplicates, or the problem with them."""
        facts = list(dict.fromkeys(" ".join(fact.split()) for fact in reply.facts if fact.strip()))
        if len(facts) <= MAX_FACTS:
            return facts
        return f"{len(facts)} atomic facts, at most {MAX_FACTS} are taken."

    def read_labels(self, reply: Labels, facts: Sequence[str]) -> Verdict:
        """Return the shares of labels; the chain is unscored if a fact has no label or two."""
        counts = Counter(fact.number for fact in reply.facts)
        numbers = range(1, len(facts) + 1)
        if wrong := [number for number in numbers if counts[number] != 1] or sorted(
            set(counts) - set(numbers)
        ):
            times = counts[wrong[0]]
            return Verdict(
                problem=f"of {len(facts)} facts, number {wrong[0]} is labelled {times} times."
            )
        labels = Counter(fact.label for fact in reply.facts)
        related = labels["consistent"] + labels["inconsistent"]
        values = {
            "recall_consistent": labels["consistent"] / len(facts),
            "recall_related": related / len(facts),
            "recall_inconsistent": labels["inconsistent"] / len(facts),
        }
        if related:
            values["recall_of_related"] = labels["consistent"] / related
        return Verdict(
            values=values, reason=" ".join(f"{fact.number}: {fact.reason}" for fact in reply.facts)
        )

    @property
    def prompt_id(self) -> str:
        """Hash of the prompts, 8 hex digits."""
        schemas = [schema.model_json_schema() for schema in (Atoms, Labels)]
        return prompt_id(self.split, self.task, schemas, MAX_FACTS)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Not supported: the graph, which has the facts, reads labels with `read_labels`."""
        raise NotImplementedError("recall is read with the facts that it labels: read_labels")

    def words_to_atoms(self, reply: str) -> Atoms:
        """Parse the facts in a numbered or dashed list.

        Raises:
            ModelReplyError: the last line is not a list item.
        """
        line = re.compile(r"(?:\d+[.)]|[-*•])\s+(\S.*)")
        facts = [
            hit[1] for row in own_words(reply).splitlines() if (hit := line.fullmatch(row.strip()))
        ]
        if not facts:
            last_line(reply, line, ())
        return Atoms(facts=facts)

    def words_to_labels(self, reply: str, item: Item) -> Labels:
        """Parse the labels in lines such as `2: unrelated`, or in the paper's tags
        `<2>..<unrelated>..</2>`.

        Raises:
            ModelReplyError: there are none, or not at the end.
        """
        line = re.compile(
            rf"<?(\d+)[.):>]\s*<?({'|'.join(LABELS)})>?\s*(?:</\1>)?\.?", re.IGNORECASE
        )
        texts = {fold_text(row) for text in item.texts for row in text.splitlines()}
        hits = [
            hit for row in own_words(reply).splitlines() if (hit := line.fullmatch(row.strip()))
        ]
        unquoted = [hit for hit in hits if fold_text(hit[0]) not in texts]
        if not unquoted:
            last_line(reply, re.compile(rf"({'|'.join(LABELS)})"), item.texts)
        facts = [{"number": int(hit[1]), "reason": "", "label": hit[2]} for hit in unquoted]
        return Labels.model_validate({"facts": facts})
