"""Extractor that has a chat model read a document as one text, as DocTER's LLM-based pipeline."""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.agents.roles.extract import check_form, extraction_prompt_id, read_triplets
from emend.graphs.extraction.base import Extractor, ExtractorOutput
from emend.memory.errors import BadSettings


class LlmExtractor(Extractor):
    """Extractor with one call per document; the triplets are validated and deduplicated as with
    other extractors.

    Args:
        model: the chat model, or its name.
        form: format of its replies: `json`, `lines` or `tuples`.
        name: name of the model in the fingerprint; None takes its type.

    Raises:
        BadSettings: no model, or an unknown form.
    """

    method = "llm"
    whole = True

    def __init__(
        self, model: BaseChatModel | str | None, form: str = "json", name: str | None = None
    ) -> None:
        if model is None:
            raise BadSettings(
                "method 'llm' needs a model: name one, for example --model openai:gpt-4.1-mini."
            )
        self._form = check_form(form)  # before a model is loaded
        self._model = load_model(model) if isinstance(model, str) else model
        name = (
            fingerprint(self._model, model) if isinstance(model, str) else name or model._llm_type
        )
        self.fingerprint = f"llm/{name}/{form}/{extraction_prompt_id(form)}"

    def extract(
        self, sentences: Sequence[str], language: str, failure: str = ""
    ) -> ExtractorOutput:
        """Return the triplets in the model's reply."""
        if not sentences:
            return ExtractorOutput(triplets=())
        reply = read_triplets(self._model, " ".join(sentences), self._form, failure)
        return ExtractorOutput(triplets=reply.triplets, usage=reply.usage)
