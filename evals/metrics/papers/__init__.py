"""Scores as the papers of the benchmarks define them."""
