"""MeLLo (Zhong et al. 2023): questions in steps, each checked against the memory."""

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
from emend.graphs.decomposition.state import HOPS, HOPS_LIMIT, Form, HopSource, MelloContext
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Retriever
from emend.memory.retrieval.dense import Dense


@dataclass(frozen=True)
class MelloSettings(RagSettings):
    """Settings of MeLLo.

    Attributes:
        form: `text` (as published), `lines` (line by line, for models too small to follow a format)
            or `structured` (by schema). `auto` is `structured` for a model with structured output
            or tools of its own, `lines` for a model whose window is too small for the
            demonstrations and for a local chat model with few parameters, otherwise `text`. With
            `auto`, a chat model is asked again after a reply in the wrong format; a probe whose
            steps never have the right format starts again in `lines`; if that fails too, a chat
            model answers it from the retrieved facts. The other forms have no such fallback.
        hops: maximum number of subquestions.
        hops_from: what decides the number of subquestions: the `model`, as published, or the
            `data`: a question with the tag `hops` may always take that many, and takes exactly that
            many in the form `lines`.
        demonstrations: a text file with demonstrations that replace the shipped ones. The form
            `text` shows them; so does `lines` to a chat model, and to any model whose steps in
            `text` had the wrong format.
    """

    form: Literal["auto", "text", "lines", "structured"] = "auto"
    hops: Annotated[int, Field(ge=1, le=HOPS_LIMIT)] = HOPS
    hops_from: HopSource = "model"
    demonstrations: str = ""


class Mello(SteppingEditor):
    """MeLLo editor: answers a question in steps, and follows the memory if it contradicts one."""

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
            forms: tuple[Form, ...] = ("lines",)
            if is_chat_model(context.model):
                forms = ("lines", "facts")
            self.fallbacks = tuple(form for form in forms if form != self.form)
            after = "".join(f", else '{form}'" for form in self.fallbacks)
            logging.getLogger(__name__).info(
                "editor 'mello' prompts in the form '%s'%s.", self.form, after
            )
        embedding, retriever = (
            str(getattr(self.memory, "identity", "")),
            qualified_name(context.retriever),
        )
        published = "contriever" in embedding.lower() and retriever == qualified_name(Dense)
        if self.form == "text" and embedding and not published:  # a dry run has no embedding
            logging.getLogger(__name__).warning(
                "editor 'mello' retrieves by %s with the embedding '%s', but was published with "
                "Contriever's dot product: --retriever dense --embedding "
                "facebook/contriever-msmarco.",
                *(retriever.rpartition(":")[2], embedding.partition("/")[0]),
            )

    def form_for(self, model: BaseChatModel) -> str:
        """Return the form that a model can follow."""
        if not is_chat_model(model):
            return super().form_for(model)
        if is_small_model(model):
            return "lines"
        return "structured" if supports_structure(model) else "text"

    @property
    def shows_demonstrations(self) -> bool:
        """True if the form in use, or a fallback form, shows demonstrations to this model."""
        forms = (self.form, *self.fallbacks)
        return "text" in forms or ("lines" in forms and is_chat_model(self.context.model))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `SteppingEditor` with the fallback forms, if there are any."""
        return super().fingerprint | ({"fallbacks": list(self.fallbacks)} if self.fallbacks else {})

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> MelloContext:
        """Return the graph's context with the form, the limit of hops and the demonstrations."""
        return MelloContext(
            **self.common_fields(retriever),
            form=self.form,
            fallbacks=self.fallbacks,
            hops=self.settings.hops,
            hops_from=self.settings.hops_from,
            demonstrations=self.demonstrations if self.shows_demonstrations else "",
            empty=not edits,
        )
