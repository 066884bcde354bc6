"""Aggregation of records into rows with n, unscored and 95% intervals."""
