"""Asking an edited model by hand: a memory's edits stand, and one question follows another."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self, TextIO

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import convert_to_openai_messages, messages_from_dict
from rich.text import Text

from emend.agents.llm import MODELS
from emend.agents.scoring import ScoringModel
from emend.editors.base import Answerer, Materials
from emend.editors.memory_based.unedited import Unedited
from emend.editors.registry import EDITORS
from emend.evals.log.config import RunConfig
from emend.evals.report.escape import one_line, safe
from emend.evals.report.table import console_for
from emend.evals.report.tracing import content_of, grown_by
from emend.evals.runner.ask_probe import ask_recorded
from emend.evals.runner.components import load_model_and_policy, refuse_unused_limits
from emend.evals.trace.case_trace import new_hits
from emend.graphs.running import keep_steps, listening, steps_of
from emend.memory.edit import Edit
from emend.memory.errors import BadData, EmendError, ModelError
from emend.memory.probe import Answer, Probe, Reading, Step, Style
from emend.memory.redaction import hide_keys
from emend.memory.retrieval.base import Corpus
from emend.memory.retrieval.compose import load_retriever

LONG = 300
SAID_ELSEWHERE = ("usage", "cut_tokens", "transcript", "reading")
HINT = "One question a line; Ctrl-D ends."


class Lent:
    """A memory that is read and never written: what an editor would add is there already."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    def add(self, edits: Sequence[Edit]) -> None:
        """Nothing."""

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The entries of these edits alone, or of all."""
        return self._memory.view(edit_ids)  # type: ignore[no-any-return]


class Asking:
    """A model under an editor, over the current edits of a memory; a context manager.

    Args:
        model: by name.
        editor: by name; the one that leaves the model as it is needs no memory.
        where: the memory's folder, or its server.
        retriever: a strategy, or a chain of them.
        overrides: settings, by editor; those of the model are under `model`.
        embedding: the memory's, by name; None where it is one of the usual ones.
        limits: how providers are asked, under the names that a run's configuration has for it; none by default.

    Raises:
        BadSettings: an unknown name, or limits of a model on this machine. And whatever loading a model or a memory
            raises.
    """

    def __init__(
        self,
        model: str,
        editor: str,
        where: str,
        retriever: str,
        overrides: dict[str, dict[str, Any]],
        embedding: str | None = None,
        limits: dict[str, Any] | None = None,
    ) -> None:
        self._factory, self._strategy = EDITORS.load(editor), load_retriever(retriever)
        told: dict[str, Any] = {"model": model, "overrides": overrides} | (limits or {})
        self._config = RunConfig(benchmark="", editors=(editor,), concurrency=1, **told)
        self._where, self._embedding, self._open = where, embedding, ExitStack()
        self._editor, self._model = editor, model
        self._answerer: Answerer | None = None
        self._reading: Reading = "line"

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            memory = opening.enter_context(self._memory()) if self._needs_memory else None
            model, policy = load_model_and_policy(self._config)
            opening.callback(policy.close)
            if hasattr(model, "close"):
                opening.callback(model.close)
            lent, edits = (None, ()) if memory is None else (Lent(memory), memory.edits(current=True))
            settings = self._config.overrides.get(self._editor, {})
            materials = Materials(model, lent, self._strategy, settings=settings, policy=policy)
            with EDITORS.plugin_errors(self._editor):
                self._answerer = opening.enter_context(self._factory(materials).edit(edits))
            refuse_unused_limits(self._config, policy)
            self._reading = reading_of(model)
            self._open = opening.pop_all()
        return self

    @property
    def _needs_memory(self) -> bool:
        """Whatever the editor does with edits, it must have them; the baseline does nothing with them."""
        return not (isinstance(self._factory, type) and issubclass(self._factory, Unedited))

    def _memory(self) -> AbstractContextManager[Any]:
        from emend.evals.cli.memory import opened_memory

        return opened_memory(self._where, self._embedding, search=True)

    def __exit__(self, *raised: object) -> None:
        with EDITORS.plugin_errors(self._editor):
            self._open.close()

    def ask(self, text: str, style: Style = "question", told: Callable[[Step], None] | None = None) -> Answer:
        """The answer; each step is told as soon as it has ended, or behind the answer where an editor has it in there.

        Raises:
            ModelReplyError: the model's reply is off the method's form. And whatever asking a model raises.
            BadData: a user's own editor fails on the question.
            BadSettings: it answers with something else than an `Answer`.
        """
        assert self._answerer is not None, "use it in a with"
        probe = Probe(kind="asked", prompt=text, style=style, gold=("",), reading=self._reading)
        steps: list[Step] = []

        def hear(step: Step) -> None:
            steps.append(step)
            if told is not None:
                told(step)

        with self._told_of(text), listening(hear):
            answer = ask_recorded(self._editor, self._answerer, probe)
            for step in () if steps else answer.steps:
                hear(step)
        return answer

    @contextmanager
    def _told_of(self, question: str) -> Iterator[None]:
        """What a user's own editor or model raises over one question is told as theirs; the next one may fare better.

        Raises:
            BadData: the editor raised something else than Emend's errors.
            ModelError: the model did, under an editor of Emend's.
        """
        try:
            yield
        except EmendError:
            raise
        except Exception as error:
            told = f"fails on {question[:60]!r} ({type(error).__name__}: {error}): mend it, see docs/extend.md."
            found: EmendError
            if self._editor not in EDITORS.builtin | EDITORS.aliases:
                found = BadData(f"editor '{self._editor}' {told}")
            elif self._model.partition(":")[0] not in MODELS.builtin:
                found = ModelError(f"model '{self._model}' {told}")
            else:
                raise
            keep_steps(found, steps_of(error))
            raise found from error


def reading_of(model: BaseChatModel) -> Reading:
    """A chat model's answer is its whole reply; a model that continues plain text goes on after the line it is asked.

    A local model says whether it chats; of any other, one that gives probabilities continues text.
    """
    return "whole" if getattr(model, "chats", not isinstance(model, ScoringModel)) else "line"


def questions(source: TextIO, told: TextIO) -> Iterator[str]:
    """One question a line, until the input ends; whoever types them is told so, and when the next one is expected.

    Raises:
        BadData: the input is not UTF-8.
    """
    typed = source.isatty() and told.isatty()

    def line() -> str:
        if typed:
            told.write("> ")
            told.flush()
        return source.readline()

    if typed:
        told.write(f"{HINT}\n")
    try:
        yield from filter(None, (text.strip() for text in iter(line, "")))
    except UnicodeDecodeError as error:
        raise BadData(f"the input is not UTF-8 ({error.reason}): write the questions in UTF-8.") from error
    if typed:
        told.write("\n")  # what follows does not stand behind the last prompt


def showing() -> Callable[[Step], None]:
    """Prints the steps of one question, each as it is told: of what grew since the step before, the new part."""
    state: dict[str, Any] = {}

    def shown(step: Step) -> None:
        show_step(step, state)
        state.update(_as_kept(step.update))

    return shown


def _as_kept(update: dict[str, Any]) -> Any:
    """What a run's folder would hold of it: a graph's state may have what JSON has not."""
    return json.loads(json.dumps(update, ensure_ascii=False, default=str))


def show_step(step: Step, before: dict[str, Any]) -> None:
    """Print a step: its node, how long it took, what it changed of the state before it."""
    console = console_for()
    console.print(Text(f"{step.node}", style="bold") + Text(f"  {step.ms:,.0f} ms", style="dim"))
    for name, told in _changes(_as_kept(step.update), before):
        shown = one_line(hide_keys(told))  # a model may repeat what a careless server tells it
        console.print(Text(f"  {name}: {shown[:LONG]}{'...' if len(shown) > LONG else ''}"), soft_wrap=True)
    if step.error:
        console.print(Text(f"  {one_line(hide_keys(step.error))}", style="red"), soft_wrap=True)


def _changes(update: dict[str, Any], before: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in update.items():
        old = before.get(name)
        new = new_hits(value, old or ()) if name == "hits" else grown_by(value, old)[1]
        if name == "messages":
            yield from ((who, told) for who, told in _spoken(new) if told and told not in update.values())
        elif name not in SAID_ELSEWHERE and new not in ([], ""):
            yield name, new if isinstance(new, str) else json.dumps(new, ensure_ascii=False)


def _spoken(messages: Any) -> Iterator[tuple[str, str]]:
    """Of a conversation as LangChain writes it, what the model said and called, and what tools returned."""
    if all(isinstance(one, dict) and {"type", "data"} <= one.keys() for one in messages):
        told: Any = convert_to_openai_messages(messages_from_dict(messages))
        yield from ((one["role"], content_of(one)) for one in told if one["role"] in ("assistant", "tool"))


def show_answer(answer: Answer, steps: bool) -> None:
    """Print the answer, in as many lines as it has; after its steps, under a heading of its own."""
    lead = Text("answer  ", style="bold") if steps else Text()
    console_for().print(lead + Text(safe(hide_keys(answer.text or ""))), soft_wrap=True)


def as_json(question: str, told: Answer | EmendError, steps: bool) -> str:
    """One question and what came of it, in one line: the fields of its answer, or the error."""
    if isinstance(told, Answer):
        found = told.model_dump(exclude=None if steps else {"steps"})
    else:
        found = {"error": f"{type(told).__name__}: {told}"}
        found |= {"steps": [step.model_dump() for step in steps_of(told)]} if steps else {}
    return hide_keys(json.dumps({"question": question} | found, ensure_ascii=False, default=str))
