"""Metrics: pure functions from answers to numbers."""
