"""Runs of memory systems over a stream, with a result line per place and per answer."""
