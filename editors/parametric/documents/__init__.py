"""Editors of long targets: documents that a model is to write out after a question, a title or a lead."""
