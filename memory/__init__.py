"""Edits, probes, stores, embeddings and retrieval."""
