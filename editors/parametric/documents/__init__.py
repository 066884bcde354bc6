"""Editors for long targets: documents that a model reproduces from a question, title or lead."""
