"""Sources of the items of a construction, by the benchmark that is made of them, and the files that are written."""
