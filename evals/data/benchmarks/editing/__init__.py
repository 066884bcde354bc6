"""Benchmarks of factual edits that are scored by the tokens of the right answer."""
