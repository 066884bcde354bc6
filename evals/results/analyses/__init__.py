"""Analyses of the papers beyond their tables: each is a function over the records of runs."""
