"""A memory system run as an editor is: turns are its edits, and its context, cut to a budget, is shown to the model."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, ClassVar, Self

from filelock import FileLock, Timeout

from emend.agents.roles.answer import wording_id
from emend.agents.scoring import is_chat_model
from emend.editors.answerers import graph_answerer
from emend.editors.base import Answerer, ApplyMore, EditorContext
from emend.evals.metrics.agents import STORE, compare_states, count_tokens
from emend.evals.stream.gold import GoldState, StateFact
from emend.evals.stream.system import AnsweringSystem, ContextItem, HasSize, HasState, SystemContext, SystemFactory
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, BadSettings
from emend.memory.files import open_file, private_folder, replace_file
from emend.memory.probe import Answer, Probe, Step
from emend.memory.retrieval.base import Entry, Hit


def as_line(item: ContextItem) -> str:
    """An item as a line of the prompt, with its date."""
    text = " ".join(item.text.split())
    return f"[{item.date}] {text}" if item.date else text


def cut_to_budget(items: Sequence[ContextItem], budget: int | None) -> list[ContextItem]:
    """The first items in the system's order that fit together, each whole; the first that does not fit ends them.

    Args:
        items: best first.
        budget: maximum number of tokens by `count_tokens`, dates included; None for no limit.
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


def in_order(items: Sequence[ContextItem], places: Mapping[str, int]) -> list[ContextItem]:
    """The items as the model reads them: by date, then in the order of the stream; without a date, last.

    Args:
        items: in any order.
        places: by turn, its number in the stream.
    """
    return sorted(items, key=lambda item: (not item.date, item.date, places.get(item.turn, 0)))


OBSERVED = "observed"
"""File with the ids of the turns that a store has, one a line, in order."""
SYSTEM_FOLDER = "store"


class StreamSession:
    """Gives turns to a memory system; each stream has a memory of its own.

    A store that was kept is used on if its turns are the first ones of the stream, and made anew where it is ahead of
    a question, for an answer must not know what comes later.

    Args:
        make: makes the system over a folder, or without one.
        folder: where its stores are kept; None for systems that keep nothing.
    """

    def __init__(self, make: Callable[[Path | None], Any], folder: Path | None) -> None:
        self._make, self._home = make, folder
        self._temporary: TemporaryDirectory[str] | None = None
        self._lock: FileLock | None = None
        self._system: Any = None
        self._stream: str | None = None
        self._stored: list[str] = []
        self.turns: list[Turn] = []
        """Turns of the present stream so far."""
        self.places: dict[str, int] = {}
        self.injections: list[int] = []
        """For each poisoned turn since the last question, the number of calls by which it changed the store."""

    def __enter__(self) -> Self:
        if self._home is not None:
            self._lock = FileLock(private_folder(self._home) / "lock", timeout=0)
            try:
                self._lock.acquire()
            except Timeout:  # a process with another repeat of the same pass uses the store
                self._temporary, self._lock = TemporaryDirectory(prefix="emend-stream-"), None
                self._home = Path(self._temporary.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._lock is not None:
            self._lock.release()
        if self._temporary is not None:
            self._temporary.cleanup()

    def observe(self, turn: Turn) -> None:
        """Give the next turn to the system, unless its store has it already."""
        if turn.stream != self._stream:
            self._open(turn.stream)
        self.places[turn.id] = len(self.turns)
        self.turns.append(turn)
        place = len(self.turns) - 1
        if place < len(self._stored) and self._stored[place] != turn.id:
            self._start_anew()
        elif place >= len(self._stored):
            self._give(turn)

    def system_at(self, question: StreamQuestion) -> Any:
        """The system with all turns before a question, and no other.

        Raises:
            BadData: no turn of the question's stream comes before it.
        """
        if self._system is None or question.stream != self._stream:
            raise BadData(f"question '{question.text[:60]}' comes before every turn of its stream '{question.stream}'.")
        if len(self._stored) > len(self.turns):
            self._start_anew()
        return self._system

    def _open(self, stream: str) -> None:
        self._close()
        self._stream, self.turns, self.places = stream, [], {}
        self._stored = self._read_stored()
        self._system = self._make(self._store)

    @property
    def _folder(self) -> Path | None:
        return None if self._home is None else self._home / (content_id("stream", self._stream))

    @property
    def _store(self) -> Path | None:
        return None if self._folder is None else private_folder(self._folder / SYSTEM_FOLDER)

    def _read_stored(self) -> list[str]:
        """The turns that the store has; a line that a killed process left unfinished is none."""
        if self._folder is None:
            return []
        private_folder(self._folder)
        file = self._folder / OBSERVED
        if not file.exists():
            return []
        with open_file(file) as opened:
            content = opened.read()
        whole, _, _ = content.rpartition(b"\n")
        replace_file(file, whole + b"\n" if whole else b"")
        return whole.decode().split("\n") if whole else []

    def _give(self, turn: Turn) -> None:
        before = getattr(self._system, "changes", None)
        self._system.observe(turn.without_gold())
        if turn.kind == "injection" and before is not None:
            self.injections.append(self._system.changes - before)
        self._stored.append(turn.id)
        if self._folder is not None:  # after the turn: a system takes the same turn again without effect
            with open_file(self._folder / OBSERVED, "ab") as file:
                file.write(f"{turn.id}\n".encode())

    def _start_anew(self) -> None:
        """Forget the store, and observe the turns so far."""
        self._close()
        if self._folder is not None:
            (self._folder / OBSERVED).unlink(missing_ok=True)  # before the store: what is not listed is observed again
            shutil.rmtree(self._folder / SYSTEM_FOLDER, ignore_errors=True)
        self._stored = []
        self._system = self._make(self._store)
        for turn in self.turns:
            self._give(turn)

    def _close(self) -> None:
        if close := getattr(self._system, "close", None):
            close()
        self._system = None


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
    """Answers the questions of a stream from what a system recalls, which it retrieves for the graph."""

    def __init__(self, editor: SystemEditor, session: StreamSession) -> None:
        self._plan, self._session, self._model = editor.plan, session, editor.context.model
        context = RagContext(self._model, self, k=2**31, wording=MESSAGES)
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
