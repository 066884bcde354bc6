"""Streams of turns with questions in between, and the memory systems that are evaluated on them."""
