"""Roles of language models, each with a prompt, an output schema and a function."""

import tomllib
from pathlib import Path

# Prompts by role; changing one changes its role's prompt id.
PROMPTS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8")
)
