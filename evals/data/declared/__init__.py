"""Benchmarks declared in a YAML file: rows, an edit, probes, scorers and metrics, without code."""
