"""Workers: where the units of a run are evaluated, in threads, in processes or on a Ray cluster."""
