"""LLM judges over a run's records: scoring, calibration and stress tests."""
