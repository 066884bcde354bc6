"""Roles that a language model plays: a prompt, an output schema and a function each."""
