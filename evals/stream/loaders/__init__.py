"""Streams out of the files of published benchmarks."""
