"""ReCoE: reasoning over edited facts."""
