"""Editing and asking from Python: facts applied to a model inside a `with`, or questions over a memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from emend.evals.api.run import component_name, editor_names
from emend.evals.api.session import Session
from emend.evals.config.measure_config import SessionConfig
from emend.memory.edit import Edit
from emend.memory.registry import trust_typed
from emend.memory.store.jsonl import edit_from
from emend.memory.store.open_memory import open_memory as open_memory_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.memory.probe import Answer
    from emend.memory.store.chroma import ChromaMemory

Fact = Edit | Mapping[str, Any] | str
"""An edit, an object of a file of edits such as {"subject": ..., "relation": ..., "object": ...}, or a document."""


@contextmanager
def edit(model: "str | BaseChatModel", facts: Sequence[Fact], editor: Any = "rag", **options: Any) -> Iterator[Session]:
    """Apply facts to a model inside the `with`; ask the session that it yields.

    Args:
        model: name, as in `emend run --model`, or a LangChain chat model.
        facts: the new facts.
        editor: name, class or factory of the editor; one that changes weights needs facts with a prompt and a target.
        options: as of `SessionConfig`: retriever, embedding, overrides, and limits of calls.

    Raises:
        BadData: a fact has no known form.
        EmendError: a name or setting is wrong.
    """
    edits = [edit_of(fact) for fact in facts]
    with Session(session_config(model, editor, options), edits) as session:
        yield session


def ask(
    question: str,
    memory: str = "emend-memory",
    model: "str | BaseChatModel" = "tiny",
    editor: Any = "rag",
    **options: Any,
) -> "Answer":
    """Ask one question over a memory's current edits; nothing is added to the memory.

    For several questions use `edit`, or a `Session`, which loads the model once.
    """
    with Session(session_config(model, editor, {"memory": memory} | options)) as session:
        return session.ask(question)


def open_memory(
    where: str, embedding: str | None = None, superseding: Any = None, create: bool = False, search: bool = False
) -> "AbstractContextManager[ChromaMemory]":
    """Open a memory inside a `with`.

    Args:
        where: folder, or http://HOST:PORT of a server.
        embedding: name of the embedding; None is the one that the memory was made with.
        superseding: rule of a new memory: arrival, time or never.
        create: make the memory if it does not exist.
        search: load the embedding, so that the memory can be searched.

    Raises:
        BadSettings: unknown rule or embedding.
        MissingData: the memory does not exist.
    """
    trust_typed(embedding)
    return open_memory_of(where, embedding, superseding, create, search)


def edit_of(fact: Fact) -> Edit:
    """The edit that a fact is.

    Raises:
        BadData: it has no known form.
        ValidationError: a field is unknown or of the wrong type.
    """
    if isinstance(fact, Edit):
        return fact
    return edit_from({"document": fact} if isinstance(fact, str) else dict(fact))


def session_config(model: Any, editor: Any, options: Mapping[str, Any]) -> SessionConfig:
    """The configuration of a session, with names in place of objects."""
    named = dict(options) | {"model": component_name("model", model), "editor": editor_names(editor)[0]}
    for option in ("retriever", "embedding"):
        if named.get(option) is not None:
            named[option] = component_name(option, named[option])
    return SessionConfig.model_validate(named)
