"""Reproduced tables, estimates and coverage for the terminal and for files."""
