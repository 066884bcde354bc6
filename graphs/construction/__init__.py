"""Construction graphs: one per kind of benchmark, run once for each item."""
