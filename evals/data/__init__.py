"""Data of evaluations: `benchmarks`, and their real files, where they come from, whether they are whole, what they hold."""
