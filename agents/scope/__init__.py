"""Scope classifiers: does an edit apply to a query."""
