"""Evaluation of a run: cases, edits and probes."""
