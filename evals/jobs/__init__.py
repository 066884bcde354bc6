"""The job engine: evaluates units with content keys and writes their lines to a run folder."""
