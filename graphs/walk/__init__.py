"""Parts of the graph `kg_walk`: links between entities, and the choice of the one to follow."""
