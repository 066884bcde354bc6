"""Causal tracing: where in a local model a fact is recalled, and so where to edit it."""
