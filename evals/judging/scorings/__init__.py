"""Scorings of a run: a panel's judgements, each scoring in its own subfolder of the run folder."""
