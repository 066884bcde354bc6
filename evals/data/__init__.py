"""Data of runs: `benchmarks`, and their real files, where they come from, whether they are whole."""
