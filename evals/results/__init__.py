"""Results of runs: reports, comparisons, analyses, estimates, and search of settings."""
