"""Analyses of the four papers."""
