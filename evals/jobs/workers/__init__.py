"""Workers, which evaluate the units of a run in threads, processes or on a Ray cluster."""
