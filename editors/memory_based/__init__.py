"""Editors that keep edits in a memory and leave the weights alone."""
