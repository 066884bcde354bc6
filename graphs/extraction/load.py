"""Registry of extractors by name."""

from typing import Any

from emend.graphs.extraction.base import Extractor
from emend.memory.registry import Registry

# Each entry is a class or function `(model, form) -> Extractor`.
EXTRACTORS: Registry[Any] = Registry(
    kind="extraction method",
    group="emend.extractors",
    builtin={
        "rules": (
            "emend.graphs.extraction.rules:RulesExtractor",
            "own rules for English: no model, no download",
        ),
        "llm": (
            "emend.graphs.extraction.llm:LlmExtractor",
            "a chat model reads the document whole; --model names it",
        ),
    },
)


def load_extractor(method: str = "rules", model: Any = None, form: str = "json") -> Extractor:
    """Load an extractor by name.

    Args:
        method: `rules`, `llm`, or the name of a plug-in.
        model: chat model or its name, for `llm`.
        form: format of an LLM's replies: `json`, `lines` or `tuples`.

    Raises:
        BadSettings: unknown method, or `llm` without a model.
    """
    with EXTRACTORS.plugin_errors(method):
        extractor: Extractor = EXTRACTORS.load(method)(model, form)
        if not callable(getattr(extractor, "extract", None)):
            raise TypeError("the object has no method 'extract'")
    return extractor
