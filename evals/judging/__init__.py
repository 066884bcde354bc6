"""Verdicts on a run's records by judge models, with calibration and stress tests, and by human
annotators.
"""
