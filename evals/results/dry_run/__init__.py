"""Estimates of a run's calls, tokens, cost and time before it starts."""
