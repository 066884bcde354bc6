"""Calibration and stress test of judges."""
