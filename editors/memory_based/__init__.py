"""Editors that store edits in a memory and do not change the weights."""
