"""Extraction of triplets from text: the graph `extract` and its extractors."""
