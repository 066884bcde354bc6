"""Part of a configuration that names the model under test."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class ModelSpec(NamedTuple):
    """A model: its name, the settings for loading it, and the form of its prompts.

    The form is `plain`, `chat`, or None to choose the one that fits the questions.
    """

    name: str
    settings: Mapping[str, Any] = {}
    form: str | None = None
