"""Construction of benchmarks: sources, the run that makes their items, and the folder that comes out."""
