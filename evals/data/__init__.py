"""The benchmarks' real files: where they come from, how they are fetched, whether they are whole, what they hold."""
