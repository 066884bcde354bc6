"""Tinyworld: edits of the invented world that the embedded model knows."""
