"""Verdicts on the records of a run: by models as judges, calibrated and stress-tested, and by people in `annotate`."""
