"""The extractors by name."""

from typing import Any

from emend.graphs.extraction.base import Extractor
from emend.memory.registry import Registry

EXTRACTORS: Registry[Any] = Registry(
    kind="extraction method",
    group="emend.extractors",
    builtin={
        "rules": ("emend.graphs.extraction.rules:RulesExtractor", "own rules for English: no model, no download"),
        "spacy": (
            "emend.graphs.extraction.spacy_parse:SpacyExtractor",
            "a spaCy pipeline: parser and named entities; --model names it",
        ),
        "llm": ("emend.graphs.extraction.llm:LlmExtractor", "a chat model reads the document whole; --model names it"),
    },
)
"""Each is a class or function `(model, form) -> Extractor`."""


def load_extractor(method: str = "rules", model: Any = None, form: str = "json") -> Extractor:
    """Load the extractor of that name.

    Args:
        method: `rules`, `spacy`, `llm`, or a plug-in.
        model: a chat model or its name for `llm`, the name or folder of a pipeline for `spacy`.
        form: the form of an LLM's replies: `json`, `lines` or `tuples`.

    Raises:
        BadSettings: unknown method, or `llm` without a model.
        MissingExtra: a package or model of the method is not installed.
    """
    with EXTRACTORS.plugin_errors(method):
        extractor: Extractor = EXTRACTORS.load(method)(model, form)
        if not callable(getattr(extractor, "extract", None)):
            raise TypeError("the object has no method 'extract'")
    return extractor
