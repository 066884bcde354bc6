"""Held-out wordings of generated sentences, from `held_out.toml`.

No extractor was developed on them.
"""

import tomllib
from functools import cache
from pathlib import Path

from emend.evals.streams.sentences.templates import SentenceTemplates


@cache
def held_out_templates() -> SentenceTemplates:
    """Return the templates of the file, at least eight of each kind."""
    text = (Path(__file__).parent / "held_out.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    statements = {noun: tuple(wordings) for noun, wordings in tables["statements"].items()}
    turns = {name: tuple(wordings) for name, wordings in tables["turns"].items()}
    return SentenceTemplates(statements, tuple(tables["other"]["statements"]), **turns)
