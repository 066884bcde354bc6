"""Scores of memories that are asked over streams of turns."""
