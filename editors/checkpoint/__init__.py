"""Edits as files: weight deltas and edited models on disk."""
