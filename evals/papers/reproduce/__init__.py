"""Reproduction of published tables, and grids of runs: plan, execution and collected figures."""
