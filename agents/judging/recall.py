"""Which of the edited facts does a chain of thought recall? ReCoE's fact recall."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from emend.agents.judging.base import Asked, Found, Item, Role, Verdict
from emend.agents.judging.coherence import NO_THOUGHTS, thoughts_of
from emend.agents.judging.fence import fenced
from emend.agents.judging.replies import last_line, own_words
from emend.memory.edit import content_id

MOST = 40
"""Atomic facts of one chain at most; a model that goes round in circles would make hundreds."""
LABELS = ("consistent", "inconsistent", "unrelated")
NO_EDITS = "the case has no edits to compare with"
Label = Annotated[
    Literal["consistent", "inconsistent", "unrelated"],
    BeforeValidator(lambda told: told.strip().casefold() if isinstance(told, str) else told),
]


class Atoms(Verdict):
    """The atomic facts of a text."""

    facts: list[str] = Field(description="one short sentence per statement; empty if there is none")


class Labelled(Verdict):
    """One fact against the reference."""

    number: int = Field(strict=True, ge=1)
    reason: str = Field(description="what the reference says about it")
    label: Label


class Labels(Verdict):
    """All facts against the reference."""

    facts: list[Labelled]


class Recall(Role):
    """Relatedness and consistency of each atomic fact ("Propagation and Pitfalls", 2024, section 5.3, Figure 13)."""

    name: ClassVar[str] = "recall"
    split: ClassVar[str] = (
        "Break the text into atomic facts: short sentences that each state one thing about one subject and can be "
        "understood alone, with names in the place of pronouns. Keep what the text says as it says it, also where it "
        "is wrong, and add nothing. Leave out questions, doubts, and the final answer."
    )
    task: ClassVar[str] = (
        "You are given a reference, which is a list of statements, and numbered facts. Take the reference as true, "
        "also where you know better. Say of each fact how it stands to the reference. consistent: the reference "
        "implies it, or it implies something of the reference. inconsistent: both cannot be true. unrelated: whether "
        "it is true does not depend on the reference. For each fact give its number, then the reason, then the label."
    )
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

    def pick(self, asked: Asked) -> Item | str | None:
        """Chains of thought, against the texts of the edits."""
        thoughts = thoughts_of(asked)
        if thoughts is None:
            return None
        if not thoughts or not asked.edits:
            return NO_EDITS if thoughts else NO_THOUGHTS
        return Item.of(self.name, thoughts=thoughts, reference=tuple(dict.fromkeys(asked.edits)))

    def split_prompt(self, item: Item) -> str:
        """What is asked first."""
        return f"{self.split}\n\n{fenced({'text': item.parts['thoughts']})}"

    def label_prompt(self, item: Item, facts: Sequence[str]) -> str:
        """What is asked then."""
        numbered = [f"{number}. {fact}" for number, fact in enumerate(facts, 1)]
        parts = {"reference": ("\n".join(item.parts["reference"]),), "facts": ("\n".join(numbered),)}
        return f"{self.task}\n\n{fenced(parts)}"

    def read_atoms(self, reply: Atoms) -> list[str] | str:
        """The facts, each once; or what is wrong with them."""
        facts = list(dict.fromkeys(" ".join(fact.split()) for fact in reply.facts if fact.strip()))
        return facts if len(facts) <= MOST else f"{len(facts)} atomic facts, at most {MOST} are taken."

    def read_labels(self, reply: Labels, facts: Sequence[str]) -> Found:
        """The shares; a fact without label, or with two, leaves the chain without a number."""
        counts = Counter(told.number for told in reply.facts)
        wanted = range(1, len(facts) + 1)
        wrong = [number for number in wanted if counts[number] != 1] or sorted(set(counts) - set(wanted))
        if wrong:
            told = counts[wrong[0]]
            return Found(problem=f"of {len(facts)} facts, number {wrong[0]} is labelled {told} times.")
        labels = Counter(told.label for told in reply.facts)
        related = labels["consistent"] + labels["inconsistent"]
        values = {
            "recall_consistent": labels["consistent"] / len(facts),
            "recall_related": related / len(facts),
            "recall_inconsistent": labels["inconsistent"] / len(facts),
        }
        if related:
            values["recall_of_related"] = labels["consistent"] / related
        return Found(values=values, reason=" ".join(f"{told.number}: {told.reason}" for told in reply.facts))

    @property
    def prompt_id(self) -> str:
        """Eight hex digits that change when what is asked does."""
        schemas = [schema.model_json_schema() for schema in (Atoms, Labels)]
        return content_id(self.split, self.task, schemas, MOST)[:8]

    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """The facts are known to the graph only, which reads with `read_labels`."""
        raise NotImplementedError("recall is read with the facts that it labels: read_labels")

    def words_to_atoms(self, reply: str, item: Item) -> Atoms:
        """A numbered or dashed list as facts.

        Raises:
            ModelReplyError: the last line is none of a list.
        """
        line = re.compile(r"(?:\d+[.)]|[-*•])\s+(\S.*)")
        found = [hit[1] for told in own_words(reply).splitlines() if (hit := line.fullmatch(told.strip()))]
        if not found:
            last_line(reply, line, ())
        return Atoms(facts=found)

    def words_to_labels(self, reply: str, item: Item) -> Labels:
        """Lines such as `2: unrelated`, or the tags `<2>..<unrelated>..</2>` of the paper.

        Raises:
            ModelReplyError: there is neither, or not at the end.
        """
        line = re.compile(rf"<?(\d+)[.):>]\s*<?({'|'.join(LABELS)})>?\s*(?:</\1>)?\.?", re.IGNORECASE)
        texts = {" ".join(told.split()).casefold() for text in item.texts for told in text.splitlines()}
        hits = [hit for told in own_words(reply).splitlines() if (hit := line.fullmatch(told.strip()))]
        own = [hit for hit in hits if " ".join(hit[0].split()).casefold() not in texts]
        if not own:
            last_line(reply, re.compile(rf"({'|'.join(LABELS)})"), item.texts)
        return Labels(facts=[Labelled(number=int(hit[1]), reason="", label=_label(hit[2])) for hit in own])


def _label(told: str) -> Any:
    return told.casefold()
