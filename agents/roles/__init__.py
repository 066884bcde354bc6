"""Roles that a language model plays: a prompt, an output schema and a function each."""

import tomllib
from pathlib import Path

PROMPTS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
"""Prompts by role; each changes the id that its role gives them."""
