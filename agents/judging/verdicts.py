"""Judges with a single verdict: equivalence, coherence and support (yes or no), and agreement (1 to
5).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, Field, create_model

from emend.agents.judging.base import (
    PROMPTS,
    Item,
    JudgeInput,
    Mark,
    Role,
    Verdict,
    VerdictSchema,
    YesNo,
    YesNoRole,
)
from emend.agents.judging.evidence import Compared
from emend.agents.judging.prompt_file import JudgePrompt
from emend.agents.judging.replies import own_words
from emend.agents.judging.reply_form import MARKS, ReplyForm
from emend.agents.parsing.answers import thoughts_and_answer

# Scores that compare an answer with the gold answer as text.
MATCHED = frozenset({"em", "strict", "contains", "right", "correct_flip", "equivalence"})
TEXT_FORMS = frozenset({"document", "event"})
FULL = 5
NO_BEFORE = "what the unedited model said is not there"
NO_THOUGHTS = "the reply has no thoughts before the answer"
NO_ANSWER = "the thoughts come to no answer"


_QUOTE_LINE = re.compile(
    r"^[\W_]*(?:the\s+)?(?:quote|words)(?:\s+is|\s+are)?[*_]*\s*[:=]\s*(.+)$",
    re.IGNORECASE | re.MULTILINE,
)


def joined_quote(value: Any) -> Any:
    """Join texts with `...`; return "" for None, and any other value unchanged."""
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return " ... ".join(value)
    return "" if value is None else value


# Words quoted from the judged text; small models omit them, or give null or a list.
Quote = Annotated[str, BeforeValidator(joined_quote)]


def yes_no_schema(judge: str) -> type[BaseModel]:
    """Return the schema of a reply with a reason and a verdict, described as in the judge's prompt.

    If the prompt describes a quote, that field is between the two.
    """
    prompt = PROMPTS[judge]
    fields: dict[str, Any] = {"reason": (str, Field(description=prompt["reason"]))}
    if "quote" in prompt:
        fields["quote"] = (Quote, Field(default="", description=prompt["quote"]))
    fields["verdict"] = (YesNo, Field(description=prompt["verdict"]))
    return create_model(prompt["schema"], __base__=VerdictSchema, __doc__=prompt["about"], **fields)


class Equivalence(YesNoRole):
    """Equivalence of a free-form answer and the gold answer or an alias, asked in both orders.

    The judge quotes the words of the answer that correspond to the gold answer.
    """

    name: ClassVar[str] = "equivalence"
    task: ClassVar[str] = PROMPTS["equivalence"]["task"]
    instructions: ClassVar[str] = PROMPTS["equivalence"]["people"]
    schema = yes_no_schema("equivalence")
    output: ClassVar[str] = "equivalent"
    swaps: tuple[str, str] | None = ("one", "other")
    placeholders = ("question", "reply", "reference")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick text answers that were matched with gold, and all answers of a run under the
        protocol `judge`.
        """
        matched = self.output in record.outputs or (not record.local and MATCHED & record.outputs)
        if not matched or record.answer is None or not record.gold:
            return None
        return Item.of(
            self.name, question=record.question, one=record.answer, other="\n".join(record.gold)
        )

    def shown(self, item: Item, swapped: bool) -> dict[str, tuple[str, ...]]:
        """Return the question, then the reply and the reference, in this or the swapped order."""
        pair = {"reply": item.parts["one"], "reference": item.parts["other"]}
        order = reversed(pair) if swapped else iter(pair)
        return {"question": item.parts["question"], **{name: pair[name] for name in order}}

    def compared(self, item: Item) -> Compared:
        """Return the reply and the gold answers."""
        golds = tuple(line for line in item.text_of("other").splitlines() if line.strip())
        return Compared(item.text_of("question"), golds, item.text_of("one"))

    def with_prompt(self, prompt: JudgePrompt) -> Self:
        """Return a copy with the user's prompt, which fixes the order of the texts."""
        role = super().with_prompt(prompt)
        role.swaps = None
        return role

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """Return the verdict, with the quote from a line that begins with `Quote:`."""
        verdicts = super().read_words(reply, items)
        quotes = " ... ".join(_QUOTE_LINE.findall(own_words(reply)))
        return [verdict.model_copy(update={"quote": quotes}) for verdict in verdicts]


class Supports(YesNoRole):
    """Verification that a text states the fact of the edit (AKEW, appendix E)."""

    name: ClassVar[str] = "supports"
    task: ClassVar[str] = PROMPTS["supports"]["task"]
    schema = yes_no_schema("supports")
    output: ClassVar[str] = "conveyed"
    placeholders = ("paragraph", "sentence")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick probes of the edit itself if the editor was given a text instead of the fact."""
        if (
            record.local
            or "efficacy" not in record.kind
            or not record.edits
            or not TEXT_FORMS.issuperset(record.forms)
        ):
            return None
        # use all texts of the case: each may state facts of the others
        paragraph = "\n".join(dict.fromkeys(record.edits))
        return Item.of(
            self.name, paragraph=paragraph, sentence=f"{record.question} {record.gold[0]}"
        )


class Coherence(YesNoRole):
    """Coherence of a chain of thought with its answer ("Propagation and Pitfalls", 2024, section
    5.3, Table 5).
    """

    name: ClassVar[str] = "coherence"
    task: ClassVar[str] = PROMPTS["coherence"]["task"]
    schema = yes_no_schema("coherence")
    output: ClassVar[str] = "supported"
    placeholders = ("question", "thoughts", "answer")
    forms = (ReplyForm(line="<{verdict}>", words={"support": "yes", "not-support": "no"}),)

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick chains of thought."""
        thoughts = read_thoughts(record)
        if thoughts is None:
            return None
        if not thoughts:
            return NO_THOUGHTS
        if record.answer is None or not record.answer.strip():
            return NO_ANSWER
        return Item.of(self.name, question=record.question, thoughts=thoughts, answer=record.answer)


def read_thoughts(record: JudgeInput) -> str | None:
    """Return the text before the last `Answer:` of a chain of thought; None if none was
    requested.
    """
    if record.reply is None or not {"pre_edit", "correct_flip"} & record.outputs:
        return None
    return thoughts_and_answer(record.reply)[0]


class Consistency(VerdictSchema):
    """How far two answers agree."""

    reason: str = Field(
        description="the tendency that either answer claims, and whether they are the same"
    )
    consistency: Mark = Field(description="1 to 5")


class Agreement(Role):
    """Consistency of two free answers, 1 to 5 ("Event-level Knowledge Editing", 2024, Tendency-G);
    asked in both orders.
    """

    name: ClassVar[str] = "agreement"
    task: ClassVar[str] = PROMPTS["agreement"]["task"]
    schema = Consistency
    output: ClassVar[str] = "consistency"
    outputs: ClassVar[tuple[str, ...]] = ("consistency", "judged")
    scale = "1 to 5"
    voted = ("judged",)
    swaps = ("one", "other")
    stated = {"consistency": MARKS}
    placeholders = ("question", "one", "other")
    forms = (ReplyForm(line="Score: {consistency}"),)

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick free answers out of scope, together with the unedited model's."""
        if "judged" not in record.outputs or not record.local or record.answer is None:
            return None
        if record.before is None:
            return NO_BEFORE
        return Item.of(self.name, question=record.question, one=record.answer, other=record.before)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return `consistency`."""
        return [Verdict(values={"consistency": float(reply.consistency)}, reason=reply.reason)]

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Add `judged`: 1.0 for full marks, as in the paper, in all orders that were asked."""
        return {**values, "judged": float(values["consistency"] == FULL)}
