"""CounterFact."""
