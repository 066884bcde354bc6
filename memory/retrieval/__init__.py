"""Retrieval strategies over a memory of edits."""
