"""ReCoE's questions over a table of facts, whose answers follow from several facts."""
