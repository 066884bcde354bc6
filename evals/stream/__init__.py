"""Streams of turns with questions between them, and the memory systems that are asked over them."""
