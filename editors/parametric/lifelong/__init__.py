"""Lifelong editors, which store edits in a growing memory beside one layer.

No weight changes.
"""
