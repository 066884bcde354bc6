"""Editors that keep edits in a memory beside one layer, which grows over turns; no weight changes."""
