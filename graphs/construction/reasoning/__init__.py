"""Steps of ReCoE's pipeline other than the question itself: facts, aliases and sample replies."""
