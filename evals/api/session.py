"""Sessions for editing a model and asking it questions from Python, inside a `with` or over a
memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import MODELS
from emend.agents.scoring import ScoringModel
from emend.editors.base import Answerer, EditorContext, MemoryLike
from emend.editors.memory_based.unedited import Unedited
from emend.editors.registry import EDITORS
from emend.evals.api.run import component_name, editor_names
from emend.evals.config.named_options import from_options
from emend.evals.config.overrides import check_overrides
from emend.evals.config.session_config import SessionConfig
from emend.evals.evaluate.baseline import ask_recorded
from emend.evals.evaluate.resources import load_model_and_policy, open_lazily
from emend.evals.jobs.limits import refuse_unused_limits
from emend.graphs.execution import call_on_step
from emend.memory.edit import Edit
from emend.memory.errors import BadData, EmendError, ModelError
from emend.memory.probe import Answer, Probe, Reading, Step, Style
from emend.memory.registry import trust_typed
from emend.memory.retrieval.base import Corpus
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.steps import keep_steps, steps_of
from emend.memory.store.jsonl import edit_from
from emend.memory.store.open_memory import open_memory as open_memory_of

if TYPE_CHECKING:
    from emend.memory.store.chroma import ChromaMemory


class ReadOnlyMemory:
    """A memory that is only searched: the edits that an editor would add are already stored."""

    def __init__(self, memory: Any) -> None:
        self._memory, self.embedding = memory, memory.embedding

    def add(self, edits: Sequence[Edit]) -> None:
        """Do nothing."""

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """Return the entries of the given edits, or of all edits."""
        return self._memory.view(edit_ids)  # type: ignore[no-any-return]


class Session:
    """A model under an editor that uses the current edits of a memory; a context manager.

    Args:
        config: names the model, editor, memory and retriever.
        edits: edits to apply in place of the memory's; they are stored in a temporary memory.

    Raises:
        BadSettings: an unknown name, or limits for a local model. Also any error of loading a model
            or a memory.
    """

    def __init__(self, config: SessionConfig, edits: Sequence[Edit] | None = None) -> None:
        trust_typed(config.model_dump())  # a session's configuration never comes from a file
        self._edits = edits
        self._factory, self._retriever = (
            EDITORS.load(config.editor),
            load_retriever(config.retriever),
        )
        check_overrides(config.overrides, [config.editor])
        self._config, self._resources = config, ExitStack()
        self._answerer: Answerer | None = None
        self._reading: Reading = "line"

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            memory, edits = self._memory(resources)
            model, policy = load_model_and_policy(self._config.model_spec, self._config)
            resources.callback(policy.close)
            if hasattr(model, "close"):
                resources.callback(model.close)
            settings = self._config.overrides.get(self._config.editor, {})
            context = EditorContext(
                model, memory, self._retriever, settings=settings, policy=policy
            )
            with (
                EDITORS.plugin_errors(self._config.editor),
                RETRIEVERS.plugin_errors(self._config.retriever),
            ):
                editor = self._factory(context)
                refuse_unused_limits(self._config, self._config.model, policy)
                self._answerer = resources.enter_context(editor.edit(edits))
            self._reading = reading_of(model)
            self._resources = resources.pop_all()
        return self

    def _memory(self, resources: ExitStack) -> tuple[MemoryLike | None, Sequence[Edit]]:
        """Return the memory and the edits for the editor; neither for the baseline."""
        if self._edits is not None:
            folder = Path(resources.enter_context(TemporaryDirectory(prefix="emend-")))
            temporary = open_lazily(folder, self._config.embedding or "auto")
            resources.callback(temporary.close)
            return temporary, self._edits
        if self._factory is Unedited:
            return None, ()
        opened = open_memory_of(self._config.memory, self._config.embedding, search=True)
        memory = resources.enter_context(opened)
        return ReadOnlyMemory(memory), memory.edits(current=True)

    def __exit__(self, *raised: object) -> None:
        with EDITORS.plugin_errors(self._config.editor):
            self._resources.close()

    def ask(
        self, text: str, style: Style = "question", on_step: Callable[[Step], None] | None = None
    ) -> Answer:
        """Answer a question; `on_step` is called at the end of each step, or after the answer if
        the editor reports steps only then.

        Raises:
            ModelReplyError: the reply does not have the method's form. Also any error of asking a
                model.
            BadData: a user's own editor fails on the question.
            BadSettings: the editor returns something else than an `Answer`.
        """
        assert self._answerer is not None, "use it in a with"
        probe = Probe(kind="asked", prompt=text, style=style, gold=("",), reading=self._reading)
        steps: list[Step] = []

        def hear(step: Step) -> None:
            steps.append(step)
            if on_step is not None:
                on_step(step)

        with self._plugin_errors(text), call_on_step(hear):
            answer = ask_recorded(self._config.editor, self._answerer, probe)
            for step in () if steps else answer.steps:
                hear(step)
        return answer

    @contextmanager
    def _plugin_errors(self, question: str) -> Iterator[None]:
        """Raise exceptions of a user's own editor or model as Emend's errors, so that the next
        question may succeed.

        Raises:
            BadData: the editor raised something else than Emend's errors.
            ModelError: the model raised it, under an editor of Emend's.
        """
        try:
            yield
        except EmendError:
            raise
        except Exception as error:
            message = (
                f"fails on {question[:60]!r} ({type(error).__name__}: {error}): fix it, see "
                "docs/how-to/extend.md."
            )
            reported: EmendError
            if self._config.editor not in EDITORS.builtin:
                reported = BadData(f"editor '{self._config.editor}' {message}")
            elif self._config.model.partition(":")[0] not in MODELS.builtin:
                reported = ModelError(f"model '{self._config.model}' {message}")
            else:
                raise
            keep_steps(reported, steps_of(error))
            raise reported from error


def reading_of(model: BaseChatModel) -> Reading:
    """Return how much of a reply is the answer: the whole reply of a chat model, the first line of
    a model that continues plain text.

    A local model reports if it has a chat template; any other model counts as continuing text if it
    returns probabilities.
    """
    if getattr(model, "chats", not isinstance(model, ScoringModel)):
        return "whole"
    return "line"


# An edit, a row of an edit file such as {"subject": ..., "relation": ..., "object": ...}, or the
# text of a document.
Fact = Edit | Mapping[str, Any] | str


@contextmanager
def edit(
    model: "str | BaseChatModel", facts: Sequence[Fact], editor: Any = "rag", **options: Any
) -> Iterator[Session]:
    """Apply facts to a model inside the `with`, and yield a session that answers questions.

    Args:
        model: name, as in `emend run --model`, or a LangChain chat model.
        facts: the new facts.
        editor: name, class or factory of the editor; editors that change weights need facts with a
            prompt and a target.
        options: fields of `SessionConfig`: retriever, embedding, overrides, and limits of calls.

    Raises:
        BadData: a fact has an unknown form.
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
    """Ask one question about a memory's current edits, without changing the memory.

    For several questions use `edit` or `Session`, which load the model once.
    """
    with Session(session_config(model, editor, {"memory": memory} | options)) as session:
        return session.ask(question)


def open_memory(
    where: str,
    embedding: str | None = None,
    superseding: Any = None,
    create: bool = False,
    search: bool = False,
) -> "AbstractContextManager[ChromaMemory]":
    """Open a memory inside a `with`.

    Args:
        where: folder of the memory, or http://HOST:PORT of a server.
        embedding: name of the embedding; None for the one with which the memory was created.
        superseding: rule by which edits of a new memory supersede others: arrival, time or never.
        create: make the memory if it does not exist.
        search: load the embedding, so that the memory can be searched.

    Raises:
        BadSettings: unknown rule or embedding.
        MissingData: the memory does not exist.
    """
    trust_typed(embedding)
    return open_memory_of(where, embedding, superseding, create, search)


def edit_of(fact: Fact) -> Edit:
    """Convert a fact to an edit.

    Raises:
        BadData: the fact has an unknown form.
        ValidationError: a field is unknown or of the wrong type.
    """
    if isinstance(fact, Edit):
        return fact
    return edit_from({"document": fact} if isinstance(fact, str) else dict(fact))


def session_config(model: Any, editor: Any, options: Mapping[str, Any]) -> SessionConfig:
    """Return the configuration of a session, with names in place of objects."""
    named = dict(options) | {
        "model": component_name("model", model),
        "editor": editor_names(editor)[0],
    }
    for option in ("retriever", "embedding"):
        if named.get(option) is not None:
            named[option] = component_name(option, named[option])
    return from_options(SessionConfig, named)
