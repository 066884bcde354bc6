"""The extractors by name."""

from typing import Any

from emend.graphs.extraction.base import Extractor
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry

EXTRACTORS: Registry[Any] = Registry(
    kind="extraction method",
    group="emend.extractors",
    builtin={
        "rules": ("emend.graphs.extraction.load:rules", "own rules for English: no model, no download"),
        "spacy": (
            "emend.graphs.extraction.load:spacy",
            "a spaCy pipeline: parser and named entities; --model names it",
        ),
        "llm": ("emend.graphs.extraction.load:llm", "a chat model reads the document whole; --model names it"),
    },
)
"""Each is a function `(model, form) -> Extractor`."""


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


def rules(model: Any = None, form: str = "") -> Extractor:
    """Make the rules extractor, which takes no model."""
    if model is not None:
        raise BadSettings(
            f"method 'rules' uses no model, and '{model}' is named: leave it out, or choose 'spacy' or 'llm'."
        )
    from emend.graphs.extraction.rules import RulesExtractor

    return RulesExtractor()


def spacy(model: Any = None, form: str = "") -> Extractor:
    """Make the extractor over a spaCy pipeline, by default `en_core_web_sm`."""
    from emend.graphs.extraction.spacy_parse import DEFAULT_PIPELINE, SpacyExtractor

    return SpacyExtractor(model or DEFAULT_PIPELINE)


def llm(model: Any = None, form: str = "json") -> Extractor:
    """Make the extractor over a chat model, which has to be named."""
    if model is None:
        raise BadSettings("method 'llm' needs a model: name one, for example --model openai:gpt-4.1-mini.")
    from emend.agents.llm import fingerprint, load_model
    from emend.agents.roles.extract import check_form
    from emend.graphs.extraction.llm import LlmExtractor

    check_form(form)  # before a model is loaded
    if isinstance(model, str):
        chat = load_model(model)
        return LlmExtractor(chat, form, fingerprint(chat, model))
    return LlmExtractor(model, form)
