"""Asking an edited model by hand: a memory's edits stand, and one question follows another."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from rich.text import Text

from emend.agents.llm import load_model
from emend.editors.base import Answerer, Materials
from emend.editors.registry import EDITORS
from emend.evals.manifest import MODEL
from emend.evals.report.safe import one_line
from emend.evals.report.table import console_for
from emend.graphs.running import listening
from emend.memory.edit import Edit
from emend.memory.probe import Answer, Probe, Step, Style
from emend.memory.retrieval.base import Corpus
from emend.memory.retrieval.compose import load_retriever
from emend.memory.secrets import hide_keys

LONG = 300
SAID_ELSEWHERE = ("usage", "cut_tokens", "messages", "transcript", "reading")


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
        editor: by name; one that reads a memory.
        where: the memory's folder, or its server.
        retriever: a strategy, or a chain of them.
        overrides: settings, by editor; those of the model are under `model`.
        embedding: the memory's, by name; None where it is one of the usual ones.

    Raises:
        BadSettings: an unknown name. And whatever loading a model or a memory raises.
    """

    def __init__(
        self,
        model: str,
        editor: str,
        where: str,
        retriever: str,
        overrides: dict[str, dict[str, Any]],
        embedding: str | None = None,
    ) -> None:
        self._factory, self._strategy = EDITORS.load(editor), load_retriever(retriever)
        self._model, self._where, self._name, self._overrides = model, where, editor, overrides
        self._embedding, self._open = embedding, ExitStack()
        self._answerer: Answerer | None = None

    def __enter__(self) -> Self:
        from emend.evals.cli_memory import opened_memory

        with ExitStack() as opening:
            memory = opening.enter_context(opened_memory(self._where, self._embedding, search=True))
            model = load_model(self._model, **self._overrides.get(MODEL, {}))
            if hasattr(model, "close"):
                opening.callback(model.close)
            materials = Materials(model, Lent(memory), self._strategy, settings=self._overrides.get(self._name, {}))
            self._answerer = opening.enter_context(self._factory(materials).edit(memory.edits(current=True)))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def ask(self, text: str, style: Style = "question", told: Callable[[Step], None] | None = None) -> Answer:
        """The answer; each step is told as soon as it has ended.

        Raises:
            ModelReplyError: the model's reply is off the method's form. And whatever asking a model raises.
        """
        assert self._answerer is not None, "use it in a with"
        probe = Probe(kind="asked", prompt=text, style=style, gold=("",))
        with listening(told or (lambda step: None)):
            return self._answerer.answer(probe)


def show_step(step: Step) -> None:
    """Print a step: its node, how long it took, what it changed."""
    console = console_for()
    console.print(Text(f"{step.node}", style="bold") + Text(f"  {step.ms:,.0f} ms", style="dim"))
    for name, value in step.update.items():
        if name not in SAID_ELSEWHERE and value not in ([], ""):
            last = value[-1] if name == "hops" else value  # those before were shown when they were made
            told = last if isinstance(last, str) else json.dumps(last, ensure_ascii=False)
            shown = one_line(hide_keys(told))  # a model may repeat what a careless server tells it
            console.print(Text(f"  {name}: {shown[:LONG]}{'...' if len(shown) > LONG else ''}"), soft_wrap=True)
    if step.error:
        console.print(Text(f"  {one_line(hide_keys(step.error))}", style="red"), soft_wrap=True)


def show_answer(answer: Answer, steps: bool) -> None:
    """Print the answer; after its steps, under a heading of its own."""
    lead = Text("answer  ", style="bold") if steps else Text()
    console_for().print(lead + Text(one_line(hide_keys(answer.text or ""))), soft_wrap=True)
