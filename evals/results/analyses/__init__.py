"""Analyses beyond the papers' tables, each a function over the records of runs."""
