"""Sentences of generated streams: templates, and exact parsers of what they generate."""
