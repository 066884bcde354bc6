"""Scope classifiers, which decide whether an edit applies to a query."""
