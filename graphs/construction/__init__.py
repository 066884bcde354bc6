"""Construction graphs, one per kind of benchmark, which run once per item."""
