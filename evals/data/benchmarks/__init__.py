"""Benchmarks, each of which converts the rows of its files to cases."""
