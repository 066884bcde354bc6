"""Editors that change the weights of a local model."""
