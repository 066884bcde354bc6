"""ELKEN: rows of the published files, cases made of them, and the benchmark."""
