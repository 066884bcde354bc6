"""Answers to the questions of a stream.

A system either recalls a context, which the model under test reads, or answers by itself.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.calls import record_calls
from emend.agents.roles.answer import wording_id
from emend.agents.scoring import is_chat_model
from emend.editors.answerers import graph_answerer
from emend.evals.evaluate.ask_unit import UNUSABLE, answer_until
from emend.evals.metrics.expected_answers import count_tokens
from emend.evals.metrics.scores import EMPTY, ProbeScores
from emend.evals.streams.question_probe import question_probe
from emend.evals.streams.run.scores import score_answer, score_error
from emend.evals.streams.run.session import StreamSession
from emend.evals.streams.system import AnsweringSystem, ContextItem, RecallSystem
from emend.evals.streams.turn import StreamQuestion
from emend.graphs.execution import Graph
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadSettings, NotApplicable
from emend.memory.probe import Answer, Form, Probe, Step, Usage
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.steps import usage_of_calls

# Prompt template of the context, and the graph by which the model reads it.
MESSAGES = "messages"
GRAPH = "rag"
# Larger than the number of items that any system recalls.
ALL_ITEMS = 2**31


def as_line(item: ContextItem) -> str:
    """Return an item as a line of the prompt, with its date."""
    text = " ".join(item.text.split())
    return f"[{item.date}] {text}" if item.date else text


def cut_to_budget(items: Sequence[ContextItem], budget: int | None) -> list[ContextItem]:
    """Return the longest prefix of the items that fits into the budget, without cutting an item.

    Args:
        items: best first.
        budget: maximum number of tokens by `count_tokens`, including dates; None for no limit.
    """
    chosen: list[ContextItem] = []
    left = budget
    for item in items:
        if left is not None:
            left -= count_tokens(as_line(item))
            if left < 0:
                break
        chosen.append(item)
    return chosen


def in_order(items: Sequence[ContextItem], positions: Mapping[str, int]) -> list[ContextItem]:
    """Return the items in prompt order: by date, then by position in the stream, undated ones last.

    Args:
        items: in any order.
        positions: position of each turn in the stream.
    """
    return sorted(items, key=lambda item: (not item.date, item.date, positions.get(item.turn, 0)))


@dataclass(frozen=True)
class RecalledContext:
    """Retriever of one question: recalled items, cut to the budget, in prompt order."""

    system: RecallSystem
    question: StreamQuestion
    budget: int | None
    positions: Mapping[str, int]

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the context, whatever the query is."""
        question = self.question
        recalled = self.system.context_for(question.without_gold(), question.date)
        chosen = in_order(cut_to_budget(recalled, self.budget), self.positions)
        return [_hit(number, item) for number, item in enumerate(chosen)]

    def search_probe(self, probe: Probe, k: int) -> list[Hit]:
        """Return the context."""
        return self.search(probe.retrieval_query, k)


def _hit(number: int, item: ContextItem) -> Hit:
    entry = Entry(id=f"{number:06d}", edit_id=item.turn or f"item {number}", text=as_line(item))
    return Hit(entry=entry, score=0.0)


class AnsweredQuestion(NamedTuple):
    """An answer with its scores, its duration in seconds, and its error if there was one.

    `no_answer` is True if the model gave no readable answer.
    """

    question: StreamQuestion
    answer: Answer
    scores: ProbeScores
    seconds: float
    error: Exception | None = None
    no_answer: bool = False


@dataclass(frozen=True)
class ContextReader:
    """The model under test as reader of recalled contexts.

    Attributes:
        model: the model.
        app: graph by which the model reads.
        budget: maximum number of tokens of a context; None for no limit.
        form: prompt form for models that accept both, plain or chat.
    """

    model: BaseChatModel
    app: Graph
    budget: int | None
    form: Form = ""

    @classmethod
    def load(cls, model: BaseChatModel, budget: int | None, form: Form) -> "ContextReader":
        """Create the reader with its graph."""
        return cls(model, GRAPHS.load(GRAPH)(), budget, form)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The graph, the budget, and the prompt's id."""
        prompt = wording_id(MESSAGES, is_chat_model(self.model))
        return {"graph": self.app.name, "budget": self.budget, "prompt": prompt}

    def ask(self, question: StreamQuestion, session: StreamSession) -> AnsweredQuestion:
        """Ask the system a question after all turns before it, and score the answer.

        Raises:
            BadData: no turn of the question's stream comes before it.
            Exception: any error of the system or a provider; for an unusable reply, the answer is
                unscored instead.
        """
        start = time.perf_counter()
        try:
            answer = self._answer(question, session)
        except UNUSABLE as error:
            until = answer_until(error)
            scores = score_error(question, error, until)
            seconds = time.perf_counter() - start
            is_silent = not isinstance(error, NotApplicable)
            return AnsweredQuestion(question, until, scores, seconds, error, is_silent)
        seconds = time.perf_counter() - start
        scores = score_answer(question, answer)
        is_silent = EMPTY in scores.unscored.values()
        return AnsweredQuestion(question, answer, scores, seconds, no_answer=is_silent)

    def _answer(self, question: StreamQuestion, session: StreamSession) -> Answer:
        """Return the model's answer from the recalled context, or the system's own answer."""
        system = session.system_at(question)
        if isinstance(system, AnsweringSystem):
            return _own_answer(system, question)
        context = RecalledContext(system, question, self.budget, session.positions)
        graph_context = RagContext(self.model, context, k=ALL_ITEMS, wording=MESSAGES)
        answerer = graph_answerer(self.app, graph_context, self.model)
        return answerer.answer(question_probe(question, self.form))


def _own_answer(system: AnsweringSystem, question: StreamQuestion) -> Answer:
    """Return a system's own answer; if it has no steps, its calls are recorded as one step.

    Raises:
        BadSettings: the answer is neither a string nor an `Answer`.
    """
    at, start = time.time(), time.perf_counter()
    with record_calls() as recorder:
        answer: object = system.answer(question.without_gold(), question.date)
    if isinstance(answer, str):
        answer = Answer(text=answer)
    if not isinstance(answer, Answer):
        raise BadSettings(
            f"memory system '{type(system).__name__}' answered with {answer!r:.80}, not with a "
            "text or an Answer: see docs/how-to/streams.md."
        )
    if answer.steps:
        return answer
    calls = recorder.take()
    update = {}
    if answer.text is not None:
        update["reply"] = answer.text
    ms = (time.perf_counter() - start) * 1000
    step = Step(node="answer", update=update, ms=ms, at=at, place=1, calls=calls)
    usage = answer.usage
    if usage == Usage():
        usage = usage_of_calls(calls)
    return answer.but(steps=(step,), usage=usage)
