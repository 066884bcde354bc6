"""Filters of authored texts, each of which returns why a text is rejected, or an empty text.

The docstring of a filter says what it rejects, and is printed on cards.
"""
