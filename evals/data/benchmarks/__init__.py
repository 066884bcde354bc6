"""Benchmarks: each turns its rows into cases."""
