"""Benchmark construction: sources, the run that generates the items, and the benchmark folder."""
