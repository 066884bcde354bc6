"""Items of a construction, made one by one, with a line per item in the run folder."""
