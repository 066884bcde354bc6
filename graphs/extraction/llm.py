"""The extractor that asks a chat model, as DocTER's LLM-based pipeline does: the document goes in whole."""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel

from emend.agents.roles.extract import check_form, extraction_prompt_id, read_triplets
from emend.graphs.extraction.base import Found
from emend.graphs.extraction.rules import has_name
from emend.graphs.extraction.sentences import split_sentences


class LlmExtractor:
    """One call of the model per document; what it names is checked and deduplicated like any other triplet.

    Args:
        model: the chat model.
        form: how it is to reply: `json`, `lines` or `tuples`.
        name: what the fingerprint calls the model; None takes its own parameters.

    Raises:
        BadSettings: unknown form.
    """

    method = "llm"
    whole = True

    def __init__(self, model: BaseChatModel, form: str = "json", name: str | None = None) -> None:
        self._model = model
        self._form = check_form(form)
        self.fingerprint = f"llm/{name or model._llm_type}/{form}/{extraction_prompt_id(form)}"

    def segment(self, document: str) -> list[str]:
        """The sentences of the document."""
        return split_sentences(document)

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """As they are: the model is told to write full names."""
        return list(sentences)

    def extract(self, sentences: Sequence[str], language: str, failure: str = "") -> Found:
        """The triplets that the model names.

        Raises:
            ModelReplyError: its reply cannot be read; carries it.
        """
        if not sentences:
            return Found(triplets=())
        reading = read_triplets(self._model, " ".join(sentences), self._form, failure)
        return Found(triplets=reading.triplets, usage=reading.usage)

    def is_entity(self, phrase: str, sentences: Sequence[str]) -> bool:
        """Whether a word has a capital or a digit, or the phrase is in a script without capitals."""
        return has_name(phrase)
