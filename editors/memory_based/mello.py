"""MeLLo (Zhong et al. 2023): a question is decomposed, and each step's answer checked against the memory."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.roles.decompose import DEMONSTRATIONS, step_prompt_id
from emend.agents.scoring import is_chat_model, is_small_model
from emend.agents.structured import supports_structure
from emend.editors.base import EditorContext
from emend.editors.memory_based.chain_of_thought import SteppingEditor
from emend.editors.memory_based.rag import RagSettings, qualified_name
from emend.graphs.mello import HOPS, HOPS_LIMIT, Form, MelloContext
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Retriever
from emend.memory.retrieval.dense import Dense


@dataclass(frozen=True)
class MelloSettings(RagSettings):
    """Settings of MeLLo.

    Attributes:
        form: `text` (as published), `lines` (line by line, for models too small to keep to a form) or `structured` (by
            schema); `auto` is `structured` for a model with structured output or tools of its own, `lines` for one
            whose window does not hold the demonstrations and for a local chat model of few parameters, else `text`.
            With `auto` a chat model is asked again for a reply in no form, a probe whose steps are in none begins
            again in `lines`, and where these fail too, a chat model is asked it under the facts retrieved; a form by
            name is strict.
        hops: maximum number of subquestions; a question that names its own number, in a tag, may always take those.
        demonstrations: a text file with demonstrations in place of the shipped ones; `text` shows them; so does
            `lines` to a chat model, and to any model whose steps in `text` were in no form.
    """

    form: Literal["auto", "text", "lines", "structured"] = "auto"
    hops: Annotated[int, Field(ge=1, le=HOPS_LIMIT)] = HOPS
    demonstrations: str = ""


class Mello(SteppingEditor):
    """Answers a question step by step, and follows the memory where it contradicts a step."""

    name: ClassVar[str] = "mello"
    schema: ClassVar[type[Any]] = MelloSettings
    graph: ClassVar[str] = "mello"

    shipped: ClassVar[str] = DEMONSTRATIONS
    forms: ClassVar[tuple[str, str]] = ("text", "lines")

    prompt_id = staticmethod(step_prompt_id)

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.fallbacks: tuple[Form, ...] = ()
        if self.settings.form == "auto":
            forms: tuple[Form, ...] = ("lines", "facts") if is_chat_model(context.model) else ("lines",)
            self.fallbacks = tuple(form for form in forms if form != self.form)
            after = "".join(f", else '{form}'" for form in self.fallbacks)
            logging.getLogger(__name__).info("editor 'mello' asks in the form '%s'%s.", self.form, after)
        embedding, retriever = str(getattr(self.memory, "identity", "")), qualified_name(context.retriever)
        published = "contriever" in embedding.lower() and retriever == qualified_name(Dense)
        if self.form == "text" and embedding and not published:  # a dry run has no embedding
            logging.getLogger(__name__).warning(
                "editor 'mello' retrieves by %s with the embedding '%s', and was published with Contriever's dot "
                "product: --retriever dense --embedding facebook/contriever-msmarco.",
                *(retriever.rpartition(":")[2], embedding.partition("/")[0]),
            )

    def form_for(self, model: BaseChatModel) -> str:
        """The form that a model can keep to."""
        if not is_chat_model(model):
            return super().form_for(model)
        if is_small_model(model):
            return "lines"
        return "structured" if supports_structure(model) else "text"

    @property
    def shows_demonstrations(self) -> bool:
        """True if the form in use, or one to fall back to, shows demonstrations to this model."""
        forms = (self.form, *self.fallbacks)
        return "text" in forms or ("lines" in forms and is_chat_model(self.context.model))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `SteppingEditor` with the forms to fall back to, if there are some."""
        return super().fingerprint | ({"fallbacks": list(self.fallbacks)} if self.fallbacks else {})

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> MelloContext:
        """The context with the form, the limit of hops and the demonstrations."""
        return MelloContext(
            **self.common_fields(retriever),
            form=self.form,
            fallbacks=self.fallbacks,
            hops=self.settings.hops,
            demonstrations=self.demonstrations,
            empty=not edits,
        )
