"""Data of runs: benchmarks, conversations and facts, with download and checks of their files."""
