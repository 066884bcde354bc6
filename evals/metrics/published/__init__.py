"""Scores as defined by papers and their published code, with a module for each benchmark."""
