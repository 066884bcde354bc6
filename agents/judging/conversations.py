"""Judges of answers about conversations: BEAM's statements and order of events, and LongMemEval's
criteria.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, Field

from emend.agents.judging.base import (
    PROMPTS,
    Item,
    JudgeInput,
    Role,
    Verdict,
    VerdictSchema,
    YesNoRole,
)
from emend.agents.judging.event_order import events_of, order_scores
from emend.agents.judging.evidence import Compared
from emend.agents.judging.replies import last_line, own_words
from emend.agents.judging.verdicts import yes_no_schema
from emend.memory.edit import prompt_id
from emend.memory.typography import fold_text

# Kind of question whose rubric is an ordered list of events.
ORDERED = "event_ordering"
ABSTENTION = "abstention"
# Additional instructions of the judge `remembered` by LongMemEval's kind of question.
CRITERIA = {
    name: text
    for name, text in PROMPTS["remembered"].items()
    if name in ("answer", "temporal", "update", "preference", ABSTENTION)
}
NO_EVENT = "the reply lists no event"
NO_ORDER = "fewer than two events to order"


def _score(value: Any) -> Any:
    """Convert a number written as text; return any other value unchanged."""
    return float(value) if value in ("0", "0.5", "1", "0.0", "1.0") else value


class StatementScore(VerdictSchema):
    """The score of one statement."""

    number: int = Field(strict=True, ge=1)
    reason: str = Field(description="the words of the reply that decide, or what is missing")
    score: Annotated[
        float,
        BeforeValidator(_score),
        Field(strict=True, ge=0, le=1, multiple_of=0.5, description="0, 0.5 or 1"),
    ]


class StatementScores(VerdictSchema):
    """The scores of all statements."""

    statements: list[StatementScore]


class Nuggets(Role):
    """Coverage of each statement of a rubric: 0, 0.5 or 1 (BEAM, Tavakoli et al. 2025)."""

    name: ClassVar[str] = "nuggets"
    task: ClassVar[str] = PROMPTS["nuggets"]["task"]
    schema: ClassVar[type[BaseModel]] = StatementScores
    output: ClassVar[str] = "nuggets"
    outputs: ClassVar[tuple[str, ...]] = ("nuggets", "nuggets_code")
    scale = "share"
    placeholders = ("question", "reply", "rubric")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick answers to questions with a rubric."""
        if not record.rubric or record.criterion or record.answer is None:
            return None
        return Item.of(
            self.name, question=record.question, reply=record.answer, rubric=numbered(record.rubric)
        )

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the mean score; unscored if a statement has no score or two.

        The output `nuggets_code` counts 0.5 as 0, as BEAM's code does for most kinds of questions.
        """
        count = line_count(items[0], "rubric")
        if problem := misnumbered([statement.number for statement in reply.statements], count):
            return [Verdict(problem=problem)]
        scores = [statement.score for statement in reply.statements]
        whole = sum(math.floor(score) for score in scores)
        reason = " ".join(
            f"{statement.number}: {statement.reason}" for statement in reply.statements
        )
        values = {"nuggets": sum(scores) / count, "nuggets_code": whole / count}
        return [Verdict(values=values, reason=reason)]

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """Return the mean of the scores in lines such as `2: 0.5`.

        Raises:
            ModelReplyError: there is none.
        """
        if self.own_prompt and self.own_prompt.reply_form:
            return super().read_words(reply, items)
        pairs = numbered_lines(reply, r"0(?:\.0|\.5)?|1(?:\.0)?", items[0])
        scores = [StatementScore(number=n, reason="", score=float(text)) for n, text in pairs]
        return self.read(StatementScores(statements=scores), items)


class EventMatch(VerdictSchema):
    """An event of the reply, and the right event that it is."""

    number: int = Field(strict=True, ge=1, description="number of the event in the reply")
    event: int = Field(strict=True, ge=0, description="number of the right event, 0 for none")


class EventMatches(VerdictSchema):
    """All events of the reply."""

    events: list[EventMatch]


class Order(Role):
    """Matching of the events in a reply with those of a rubric, for tau-b and F1 (BEAM)."""

    name: ClassVar[str] = "order"
    task: ClassVar[str] = PROMPTS["order"]["task"]
    schema: ClassVar[type[BaseModel]] = EventMatches
    output: ClassVar[str] = "order"
    outputs: ClassVar[tuple[str, ...]] = ("order", "order_f1", "order_tau")
    scale = "share"
    missing = NO_ORDER
    placeholders = ("question", "events", "rubric")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick lists of events that answer a question with a rubric."""
        if record.kind != ORDERED or not record.rubric or record.answer is None:
            return None
        events = events_of(record.answer)
        if not events:
            return NO_EVENT
        return Item.of(
            self.name,
            question=record.question,
            events=numbered(events),
            rubric=numbered(record.rubric),
        )

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the scores of the order; unscored if an event has no match entry or two.

        If several events match the same gold event, only the first counts.
        """
        count, right = line_count(items[0], "events"), line_count(items[0], "rubric")
        if problem := misnumbered([match.number for match in reply.events], count):
            return [Verdict(problem=problem)]
        matches = [match.event for match in sorted(reply.events, key=lambda match: match.number)]
        if max(matches) > right:
            return [Verdict(problem=f"there is no right event {max(matches)}.")]
        ranks: list[int | None] = []
        for position, event in enumerate(matches):
            is_first = event > 0 and event not in matches[:position]
            ranks.append(event - 1 if is_first else None)
        scores = order_scores(right, ranks)
        values = {"order": scores.score, "order_f1": scores.f1, "order_tau": scores.tau}
        return [
            Verdict(values={name: value for name, value in values.items() if value is not None})
        ]

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """Return the scores of matches in lines such as `2: 1`.

        Raises:
            ModelReplyError: there is none.
        """
        if self.own_prompt and self.own_prompt.reply_form:
            return super().read_words(reply, items)
        pairs = numbered_lines(reply, r"\d+|none", items[0])
        events = [
            EventMatch(number=number, event=0 if text == "none" else int(text))
            for number, text in pairs
        ]
        return self.read(EventMatches(events=events), items)


class Remembered(YesNoRole):
    """Correctness of a reply by the criterion for its kind of question (LongMemEval, Wu et al.
    2025).
    """

    name: ClassVar[str] = "remembered"
    task: ClassVar[str] = PROMPTS["remembered"]["task"]
    schema = yes_no_schema("remembered")
    output: ClassVar[str] = "remembered"
    placeholders = ("question", "reply", "reference", "criterion")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick answers to questions with a criterion."""
        if record.criterion not in CRITERIA or record.answer is None:
            return None
        reference = record.rubric or record.gold
        return Item.of(
            self.name,
            question=record.question,
            reply=record.answer,
            reference="\n".join(reference),
            criterion=CRITERIA[record.criterion],
        )

    def compared(self, item: Item) -> Compared | None:
        """Return the reply and the answer if the criterion only asks for the answer, else None."""
        if item.text_of("criterion") != CRITERIA["answer"]:
            return None
        golds = tuple(line for line in item.text_of("reference").splitlines() if line.strip())
        return Compared(item.text_of("question"), golds, item.text_of("reply"))

    @property
    def prompt_id(self) -> str:
        """Hash of the prompt and the criteria, 8 hex digits."""
        if self.own_prompt:
            return self.own_prompt.id
        return prompt_id(self.task, self.schema.model_json_schema(), CRITERIA)


def numbered(texts: Sequence[str]) -> str:
    """Format texts as a numbered list, one per line."""
    lines = (" ".join(text.split()) for text in texts)
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def line_count(item: Item, part: str) -> int:
    """Return the number of lines of a part."""
    return len(item.text_of(part).splitlines())


def misnumbered(numbers: Sequence[int], count: int) -> str:
    """Return the problem if the numbers are not exactly 1 to `count`, each once; else ""."""
    counts = Counter(numbers)
    expected = range(1, count + 1)
    wrong = [number for number in expected if counts[number] != 1]
    wrong += sorted(set(counts) - set(expected))
    if wrong:
        return f"of {count} lines, number {wrong[0]} is judged {counts[wrong[0]]} times."
    return "" if count else "there is nothing to judge."


def numbered_lines(reply: str, value: str, item: Item) -> list[tuple[int, str]]:
    """Return the numbers and values of lines such as `2: 0.5`, except lines that occur in the
    judged texts.

    Raises:
        ModelReplyError: there are no such lines.
    """
    line = re.compile(rf"<?(\d+)[.):>]\s*(?:score\s*[:=]\s*)?({value})\.?", re.IGNORECASE)
    texts = {fold_text(row) for text in item.texts for row in text.splitlines()}
    rows = [row.strip() for row in own_words(reply).splitlines()]
    hits = [hit for row in rows if (hit := line.fullmatch(row)) and fold_text(row) not in texts]
    if not hits:
        hits = [last_line(reply, line, item.texts)]
    return [(int(hit[1]), hit[2].lower()) for hit in hits]
