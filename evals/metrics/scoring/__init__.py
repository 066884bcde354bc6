"""Scorers: the base class, the built-in scorers, and their registry."""
