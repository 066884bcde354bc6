"""Judgement: the verdict of one judge on one item, in one repeat and order."""

from typing import TYPE_CHECKING

from pydantic import Field, FiniteFloat

from emend.agents.judging.base import Item, Verdict
from emend.evals.judging.disputes import PEOPLE, find_dispute
from emend.memory.edit import FrozenModel
from emend.memory.probe import Step, Usage

if TYPE_CHECKING:
    from emend.graphs.judges.graph import Judge

# Tuple of item, kind, judge, repeat and swapped.
JudgementKey = tuple[str, str, str, int, bool]


class Judgement(FrozenModel):
    """Verdict of one judge on one item in one repeat and order; a line of a scoring."""

    item: str
    kind: str
    judge: str
    repeat: int = 0
    swapped: bool = False
    values: dict[str, FiniteFloat] = {}
    reason: str = ""
    quote: str = ""
    """Words of the judged reply that the judge quotes."""
    dispute: str | None = None
    """Reason why an acceptance is disputed, empty if it is not; None in older scorings, which lack
    disputes."""
    problem: str = ""
    """Reason why there are no values."""
    reply: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    steps: tuple[Step, ...] = Field(default=(), exclude=True)
    """Steps of the judge's graph, for the first item of a call; stored separately from the line."""

    @property
    def key(self) -> JudgementKey:
        """Identity of the judgement; a key that exists is not requested again."""
        return (self.item, self.kind, self.judge, self.repeat, self.swapped)

    def with_dispute(self, judge: "Judge", item: Item) -> "Judgement":
        """Return a copy with the dispute filled in, which older scorings lack."""
        if self.dispute is not None or self.judge == PEOPLE:
            return self
        verdict = Verdict(values=self.values, quote=self.quote)
        return self.model_copy(update={"dispute": find_dispute(judge.role, item, verdict)})

    def without_texts(self) -> "Judgement":
        """Return a copy without reason and reply, which use most of the memory."""
        return self.model_copy(update={"reason": "", "reply": "", "steps": ()})
