"""A memory system run as an editor is: turns are its edits, and its context is what the model reads."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.agents.roles.answer import wording_id
from emend.agents.scoring import is_chat_model
from emend.editors.answerers import graph_answerer
from emend.editors.base import Answerer, ApplyMore, EditorContext
from emend.evals.metrics.stream_answers import STORE
from emend.evals.metrics.trajectory import compare_states
from emend.evals.stream.budget import as_line, cut_to_budget, in_order
from emend.evals.stream.gold import GoldState, StateFact
from emend.evals.stream.stream_session import StreamSession
from emend.evals.stream.system import AnsweringSystem, HasSize, HasState, SystemContext, SystemFactory
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe, Step
from emend.memory.retrieval.base import Entry, Hit

MESSAGES = "messages"


@dataclass(frozen=True)
class StreamPlan:
    """The turns and questions of a stream by id, and the maximum number of tokens of a context."""

    turns: Mapping[str, Turn]
    questions: Mapping[str, StreamQuestion]
    budget: int | None = None

    @cached_property
    def _ends(self) -> dict[str, int]:
        """By stream, the place of its last questions."""
        return {each.stream: each.place for each in sorted(self.questions.values(), key=lambda each: each.place)}

    def is_last(self, question: StreamQuestion) -> bool:
        """True if no question of the stream comes later."""
        return question.place == self._ends[question.stream]

    def evidence(self, question: StreamQuestion) -> Sequence[Turn]:
        """The turns that decide the answer to a question."""
        return [self.turns[turn] for turn in self.questions[question.id].evidence if turn in self.turns]


class SystemEditor:
    """An editor that gives its edits, one turn each, to a memory system.

    Args:
        name: of the system.
        system: makes it.
        plan: of the stream.
        context: of an editor.
    """

    needs_weights: ClassVar[bool] = False

    def __init__(self, name: str, system: SystemFactory, plan: StreamPlan, context: EditorContext) -> None:
        self.name, self.plan, self.context = name, plan, context
        self._factory = system
        self._app = GRAPHS.load("rag")()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The system with its settings, the budget, and the prompt's id."""
        return {
            "editor": self.name,
            "graph": self._app.name,
            "settings": self.context.settings,
            "budget": self.plan.budget,
            "prompt": wording_id(MESSAGES, is_chat_model(self.context.model)),
        }

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        """Turns are observed in the order of the calls; the memory is kept in the run's folder if the system can."""
        folder = self.context.folder / "systems" / self.name.replace(":", "-") if self.context.folder else None
        with StreamSession(self._system, folder if getattr(self._factory, "persistent", False) else None) as session:
            answerer = _SystemAnswerer(self, session)

            def observe(edits: Sequence[Edit]) -> Answerer:
                for edit in edits:
                    session.observe(self.plan.turns[edit.id])
                return answerer

            yield observe

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """The turns are observed in a memory of their own."""
        with self.sequence() as observe:
            yield observe(edits)

    def _system(self, folder: Path | None) -> Any:
        """A new system, or the one whose store is in the folder.

        Raises:
            BadSettings: it has neither `context_for` nor `answer`.
        """
        context = SystemContext(
            model=self.context.model,
            embedding=getattr(self.context.memory, "embedding", None),
            folder=folder,
            settings=self.context.settings,
            policy=self.context.policy,
            evidence=self.plan.evidence,
        )
        system = self._factory(context)
        if not (hasattr(system, "context_for") or hasattr(system, "answer")):
            raise BadSettings(
                f"memory system '{self.name}' has neither context_for nor answer: see docs/how-to/streams.md."
            )
        return system


@dataclass(frozen=True)
class SystemEditorFactory:
    """Makes the editor of a system for a context; it needs an embedding where the system does."""

    name: str
    system: SystemFactory
    plan: StreamPlan
    needs_weights: ClassVar[bool] = False

    @property
    def reads_memory(self) -> bool:
        """True if the system searches by vectors."""
        return bool(getattr(self.system, "reads_memory", False))

    def __call__(self, context: EditorContext) -> SystemEditor:
        """The editor."""
        return SystemEditor(self.name, self.system, self.plan, context)


class _SystemAnswerer:
    """Answers the questions of a stream from what a system recalls."""

    def __init__(self, editor: SystemEditor, session: StreamSession) -> None:
        self._plan, self._session, self._model = editor.plan, session, editor.context.model
        context = RagContext(self._model, _Recall(editor.plan, session), k=2**31, wording=MESSAGES)
        self._reader = graph_answerer(editor._app, context, self._model)
        self._meter = _StoreMeter(session)

    def answer(self, probe: Probe) -> Answer:
        """The model's answer from the recalled context, or the system's own."""
        question = self._plan.questions[probe.id]
        system = self._session.system_at(question)
        if isinstance(system, AnsweringSystem):
            answer = _as_answer(system.answer(question.without_gold(), question.date))
        else:
            answer = self._reader.answer(probe)
        return self._with_store(answer, question)

    def _with_store(self, answer: Answer, question: StreamQuestion) -> Answer:
        """The answer; to the first question at a place with the measures of the store in its first step."""
        if not answer.steps or not self._meter.is_due(question):
            return answer
        first, *others = answer.steps
        store = self._meter.measure(self._session.system_at(question), self._plan.is_last(question))
        first = first.model_copy(update={"update": first.update | {STORE: store}})
        return answer.but(steps=(first, *others))


def _as_answer(answer: str | Answer) -> Answer:
    if isinstance(answer, Answer):
        return answer
    return Answer(text=answer, steps=(Step(node="answer", update={"reply": answer}, ms=0.0, place=1),))


class _StoreMeter:
    """Measures a store at each place of a stream, and compares its state with gold, where the system shows it."""

    def __init__(self, session: StreamSession) -> None:
        self._session = session
        self._place = ("", -1)
        self._gold, self._turns = GoldState(), list[Turn]()

    def is_due(self, question: StreamQuestion) -> bool:
        """True for the first question at a place."""
        place = question.stream, question.place
        is_new, self._place = place != self._place, place
        return is_new

    def measure(self, system: object, is_last: bool) -> dict[str, float]:
        """Size of the store, how its state compares with gold, also at the end, and what poisoned turns changed."""
        store: dict[str, float] = {}
        if isinstance(system, HasSize):
            size = system.size()
            store |= {"store_items": size.items, "store_bytes": size.bytes}
        holds = self._current() if isinstance(system, HasState) else set()
        if isinstance(system, HasState) and holds:
            state = compare_states(system.state(), holds)
            shares = {"state_recall": state.recall, "state_precision": state.precision}
            store |= {name: share for name, share in shares.items() if share is not None}
            store |= {"final_state": float(state.is_equal)} if is_last else {}
        if injections := self._session.injections:
            store["injected_calls"] = sum(injections) / len(injections)
            injections.clear()
        return store

    def _current(self) -> set[StateFact]:
        """The facts that hold now, by gold."""
        turns = self._session.turns
        if turns is not self._turns:
            self._gold, self._turns = GoldState(), turns
        for turn in turns[self._gold.turns :]:
            self._gold.apply(turn)
        return self._gold.current()


class _Recall:
    """A retriever whose hits are the texts that a system recalls for a probe."""

    def __init__(self, plan: StreamPlan, session: StreamSession) -> None:
        self._plan, self._session = plan, session

    def search(self, query: str, k: int) -> list[Hit]:
        """Nothing: a question is asked by its probe."""
        return []

    def search_probe(self, probe: Probe, k: int) -> list[Hit]:
        """The context of the question, cut to the budget, in the order in which the model reads it."""
        question = self._plan.questions[probe.id]
        system: Any = self._session.system_at(question)
        items = cut_to_budget(system.context_for(question.without_gold(), question.date), self._plan.budget)
        return [
            Hit(entry=Entry(id=f"{number:06d}", edit_id=item.turn or f"item {number}", text=as_line(item)), score=0.0)
            for number, item in enumerate(in_order(items, self._session.places))
        ]
