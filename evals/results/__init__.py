"""Numbers from runs: analyses, papers' tables, their reproduction, estimates, search of settings."""
